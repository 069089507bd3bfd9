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

use crate::{Error, Result, monotonic_ns, netns, timespec};

/// The test-run's limit on iterations; at some 20 ns each this lasts longer than 80 s, and then a
/// new call goes on (which leaves a gap of some 20 ms, made up for afterwards).
const REPEAT: i32 = -1;
const SIGNAL_AGAIN: Duration = Duration::from_micros(200);
const AGAIN_NS: u64 = 1_000_000;

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
    /// When to end by itself, `CLOCK_MONOTONIC` in ns, having run before all ordinary threads of the
    /// core, those that would end it included; None: at their side, until it is stopped.
    pub(crate) first_until_ns: Option<u64>,
    /// Where the program says that the schedule is over.
    pub(crate) done: Done,
}

/// A variable of the program, in memory that is mapped for longer than the thread lives.
pub(crate) struct Done(pub(crate) *const u32);

// SAFETY: it is read only, as a whole, and stays mapped (see above).
unsafe impl Send for Done {}

impl Done {
    pub(crate) fn is_set(&self) -> bool {
        // SAFETY: mapped memory; the program writes it, hence volatile.
        unsafe { ptr::read_volatile(self.0) != 0 }
    }
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
    let mut alarm = run.first_until_ns.and_then(|end_ns| Alarm::go_first(end_ns).ok());
    let frame = vec![0u8; usize::from(run.frame_bytes)];
    let mut calls = 0;
    while !stop.load(Ordering::SeqCst) {
        if alarm.take_if(|alarm| alarm.is_over()).is_some() {
            if run.done.is_set() {
                break;
            }
            // The core stood still for some time; what is left is counted at the others' side.
            netns::go_with_the_others().map_err(|source| Error::Core { core: run.core, source })?;
        }
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

/// Interrupts the calling thread's call when its time in real time is over, again and again.
struct Alarm {
    timer: libc::timer_t,
    end_ns: u64,
}

impl Alarm {
    /// Puts the calling thread first until `end_ns`, where the kernel lets it.
    fn go_first(end_ns: u64) -> io::Result<Self> {
        let (at, again) = (timespec(end_ns), timespec(AGAIN_NS));
        // SAFETY: zero is a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = stop_signal();
        // SAFETY: takes nothing.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: both structures live through the call.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } != 0
        {
            return Err(io::Error::last_os_error());
        }
        let alarm = Self { timer, end_ns };
        let schedule = libc::itimerspec { it_interval: again, it_value: at };
        let flags = libc::TIMER_ABSTIME;
        // SAFETY: the timer was made above, the schedule lives through the call.
        if unsafe { libc::timer_settime(timer, flags, &raw const schedule, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        netns::go_first()?;
        Ok(alarm)
    }

    fn is_over(&self) -> bool {
        monotonic_ns() >= self.end_ns
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer exists until here.
        unsafe { libc::timer_delete(self.timer) };
    }
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
