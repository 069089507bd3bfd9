//! The generator's thread: one `BPF_PROG_TEST_RUN` call with live frames, ended by a signal.

use std::{
    io,
    os::{fd::RawFd, unix::thread::JoinHandleExt},
    path::PathBuf,
    ptr,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    thread::JoinHandle,
    time::Duration,
};

use crate::{Error, Result, netns};

/// The test-run's limit on iterations; at some 20 ns each this lasts longer than 80 s, and then a
/// new call goes on (which leaves a gap of some 20 ms, made up for afterwards).
const REPEAT: i32 = -1;
const SIGNAL_AGAIN: Duration = Duration::from_micros(200);

/// What the thread is to do.
pub(crate) struct Run {
    /// An open program; it outlives the thread.
    pub(crate) program: RawFd,
    /// Length of the frames that the kernel hands to it.
    pub(crate) frame_bytes: u16,
    /// Frames the kernel prepares at a time.
    pub(crate) batch: u32,
    /// Namespace that the frames leave by; None: the caller's.
    pub(crate) netns: Option<PathBuf>,
    /// Core to run on.
    pub(crate) core: usize,
}

/// The running thread.
pub(crate) struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

impl Sender {
    pub(crate) fn start(run: Run) -> Result<Self> {
        install_handler();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("isl-generate".into())
            .spawn(move || send_until_stopped(&run, &seen))
            .map_err(|source| Error::Run { source })?;
        Ok(Self { stop, thread })
    }

    /// True when the thread has ended by itself.
    pub(crate) fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the kernel's call by a signal to its thread, waits for the thread, and gives the number
    /// of calls that it took.
    pub(crate) fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::SeqCst);
        while !self.thread.is_finished() {
            // SAFETY: the thread has not been joined, so its handle is valid.
            unsafe { libc::pthread_kill(self.thread.as_pthread_t(), stop_signal()) };
            std::thread::sleep(SIGNAL_AGAIN);
        }
        self.thread.join().map_err(|_| Error::State("the generator's thread panicked"))?
    }
}

/// The thread: one call, or more when the iterations run out, until told to stop. Gives the calls.
fn send_until_stopped(run: &Run, stop: &AtomicBool) -> Result<u64> {
    netns::enter(run.netns.as_deref())?;
    netns::pin(run.core)?;
    netns::prefer();
    let frame = vec![0u8; usize::from(run.frame_bytes)];
    let mut calls = 0;
    while !stop.load(Ordering::SeqCst) {
        calls += 1;
        // SAFETY: zero is a valid value of every field.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as libbpf_sys::size_t;
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = u32::from(run.frame_bytes);
        options.repeat = REPEAT;
        options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
        options.batch_size = run.batch;
        // SAFETY: the program outlives this thread, which `stop` joins; the buffers live here.
        let ended = unsafe { libbpf_sys::bpf_prog_test_run_opts(run.program, &raw mut options) };
        let source = io::Error::from_raw_os_error(-ended);
        if ended != 0 && source.kind() != io::ErrorKind::Interrupted {
            return Err(Error::Run { source });
        }
    }
    Ok(calls)
}

/// A real-time signal that nothing else here uses; its only task is to interrupt the call.
fn stop_signal() -> i32 {
    libc::SIGRTMIN() + 5
}

extern "C" fn ignore(_signal: i32) {}

fn install_handler() {
    // SAFETY: zero is a valid sigaction: no flags (so that calls are interrupted), empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the structure lives through the call; the handler does nothing.
    unsafe { libc::sigaction(stop_signal(), &raw const action, ptr::null_mut()) };
}
