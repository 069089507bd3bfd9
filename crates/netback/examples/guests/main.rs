//! Synthetic guests: front-ends of vhost-user that drive their rings as fast as one core can.
//!
//! They stand for virtual machines in benches of the back-end, and of others that speak vhost-user
//! (DPDK's vhost library). Each has a NIC with two rings of 256 descriptors; all of them run in one
//! thread. A frame is not written anew each time, but its header is, as by a driver.

mod arguments;
mod flood;
mod forward;
mod gather;
mod memory;
mod nic;
mod random;
mod ring;
mod wake;

use std::{fmt, process::ExitCode, thread, time::Duration};

use arguments::Arguments;
use nic::Nic;

const USAGE: &str = "\
usage: guests [--core N] MODE ...

  forward SECONDS FROM.sock TO.sock --size N --to-mac MAC --from-mac MAC
      one guest transmits frames of N bytes (without check sequence), another one receives
  flood SECONDS --sizes S1,S2,... [--sizes-of INDEX:S1,S2,...]... A.sock=MAC B.sock=MAC ...
      all transmit to an address that nobody has, frames of random ones of these sizes
  gather SECONDS --sizes S1,S2,... [--sizes-of INDEX:S1,S2,...]... --pace PPS TO.sock=MAC A.sock=MAC ...
      all but the first transmit to it, which takes so many frames per second
  idle SECONDS A.sock B.sock ...
      all are attached and do nothing
  wake CYCLES FROM.sock TO.sock --to-mac MAC --from-mac MAC
      one frame at a time, after a pause of 0 to 30 us; counts wake-ups that were lost

Each prints one line of JSON. --core N: run on this core.";

/// What went wrong, in words.
#[derive(Debug)]
struct Failure(String);

impl Failure {
    fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

type Result<T> = std::result::Result<T, Failure>;

fn main() -> ExitCode {
    let wanted = match Arguments::of(std::env::args().skip(1)) {
        Ok(wanted) if !wanted.words.is_empty() => wanted,
        Ok(_) => return told(USAGE, 2),
        Err(failure) => return told(&format!("guests: {failure}\n{USAGE}"), 2),
    };
    match carry_out(&wanted) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(failure) => told(&format!("guests: error: {failure}"), 1),
    }
}

fn told(words: &str, code: u8) -> ExitCode {
    eprintln!("{words}");
    ExitCode::from(code)
}

fn carry_out(wanted: &Arguments) -> Result<String> {
    if let Some(core) = wanted.option("core") {
        stay_on(arguments::number(core)?)?;
    }
    match wanted.words[0].as_str() {
        "forward" => forward::run(wanted),
        "flood" => flood::run(wanted),
        "gather" => gather::run(wanted),
        "idle" => idle(wanted),
        "wake" => wake::run(wanted),
        mode => {
            Err(Failure::new(format!("mode {mode}; accepted: forward, flood, gather, idle, wake")))
        }
    }
}

/// Keeps this thread on a core.
fn stay_on(core: usize) -> Result<()> {
    // SAFETY: all zeros are an empty set, and the macro's function checks the core's number.
    let failed = unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut cores);
        libc::sched_setaffinity(0, size_of_val(&cores), &raw const cores)
    };
    if failed == 0 { Ok(()) } else { Err(Failure::new(format!("there is no core {core}"))) }
}

fn idle(wanted: &Arguments) -> Result<String> {
    let seconds: f64 = arguments::number(wanted.word(1, "SECONDS")?)?;
    let nics =
        wanted.words[2..].iter().map(|socket| Nic::attach(socket)).collect::<Result<Vec<_>>>()?;
    thread::sleep(Duration::from_secs_f64(seconds));
    nics.iter().try_for_each(Nic::check)?;
    Ok(format!("{{\"guests\": {}, \"seconds\": {seconds}}}", nics.len()))
}
