//! What this kernel lets us do, found out by doing it.

use std::path::PathBuf;

use crate::{
    Error, Result,
    accountant::CpuAccountant,
    generator::{Generator, GeneratorSpec},
    monotonic_ns,
    receiver::{Receiver, ReceiverSpec},
    stream::{HOP_LIMIT, Segment, StreamSpec, Timing},
};

/// Whether a program family works on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the family, as in `bpf/`.
    pub program: &'static str,
    /// Whether it could be loaded, and run where it runs without frames.
    pub works: bool,
    /// Why not; empty where it works.
    pub reason: String,
}

/// Loads each program; the generator really runs for a millisecond, into the loopback interface of
/// the calling thread's namespace at rate 0, so that no frame leaves. An error where the process, not
/// the kernel, stands in the way.
pub fn features(netns: Option<PathBuf>) -> Result<Vec<Finding>> {
    let report = |program, result: Result<()>| match result {
        Ok(()) => Ok(Finding { program, works: true, reason: String::new() }),
        Err(error @ (Error::Descriptors { .. } | Error::Interrupted { .. })) => Err(error),
        Err(error) => Ok(Finding { program, works: false, reason: error.to_string() }),
    };
    Ok(vec![
        report("generate", try_generator(netns))?,
        report("receive", try_receiver())?,
        report("account", CpuAccountant::attach().map(drop))?,
    ])
}

fn try_receiver() -> Result<()> {
    Receiver::attach(&ReceiverSpec {
        interfaces: Vec::new(),
        cookie: Some(0),
        flows: vec![1],
        series_ns: 0,
    })
    .map(drop)
}

fn try_generator(netns: Option<PathBuf>) -> Result<()> {
    let stream = StreamSpec {
        ifindex: 1,
        src_mac: [2, 0, 0, 0, 0, 1],
        dst_mac: [2, 0, 0, 0, 0, 2],
        src: [198, 18, 0, 2].into(),
        src_count: 1,
        dst: [198, 19, 0, 2].into(),
        hop_limit: HOP_LIMIT,
        fragments: false,
        icmp: false,
        first_sport: 1024,
        first_dport: 9,
        flows: 1,
        sizes: vec![64],
        segments: vec![Segment {
            duration_ns: 1_000_000,
            start_rate_millipps: 0,
            end_rate_millipps: 0,
        }],
        timing: Timing::Even,
    };
    let mut generator = Generator::load(GeneratorSpec {
        netns,
        core: 0,
        cookie: 0,
        streams: vec![stream],
        window_start_ns: 0,
        window_end_ns: 1_000_000,
        end_ns: 1_000_000,
        peak_rate_millipps: 0,
        bin_ns: 0,
    })?;
    generator.start(monotonic_ns(), false)?;
    while !generator.finished() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    generator.stop()
}
