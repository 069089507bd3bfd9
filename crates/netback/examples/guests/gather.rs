//! Many guests that transmit to one, which takes fewer frames than they send.

use std::{collections::BTreeMap, time::Instant};

use super::{
    Failure, Result,
    arguments::{Arguments, address, number},
    flood::{Source, attach, divided, wire_bytes},
    forward::{BATCH, WARM_UP_S, repeat},
    nic::Nic,
};

/// Bytes on a wire by the last two octets of their sender's address.
type Taken = BTreeMap<u16, u64>;

/// The guest that all send to.
struct Sink {
    nic: Nic,
    /// Frames per second.
    pace: f64,
    begun: Instant,
    frames: u64,
    bytes: Taken,
}

impl Sink {
    /// Takes as many frames as are due.
    fn take(&mut self) {
        let due = self.begun.elapsed().as_secs_f64() * self.pace;
        let mut changed = false;
        while (self.frames as f64) < due {
            let Some((sender, bytes)) = self.nic.take_one() else {
                break;
            };
            *self.bytes.entry(sender).or_default() += wire_bytes(bytes);
            self.frames += 1;
            changed = true;
        }
        if changed {
            self.nic.receive.publish();
        } else if self.nic.receive.returned() == 0 {
            // What could not be taken since nothing was there is not caught up with.
            (self.begun, self.frames) = (Instant::now(), 0);
        }
    }
}

pub fn run(wanted: &Arguments) -> Result<String> {
    let seconds = number(wanted.word(1, "SECONDS")?)?;
    let pace = number(wanted.needed("pace")?)?;
    let (socket, mac) = divided(wanted.word(2, "TO.sock=MAC")?, '=')?;
    let nic = Nic::attach(socket)?;
    let mut sources = attach(wanted, 3, address(mac)?)?;
    let mut sink = Sink { nic, pace, begun: Instant::now(), frames: 0, bytes: Taken::new() };
    sources.iter_mut().for_each(Source::begin);
    let mut work = |sink: &mut Sink| {
        for source in &mut sources {
            source.replace(BATCH);
        }
        sink.take();
    };
    repeat(WARM_UP_S, || work(&mut sink));
    sink.bytes.clear();
    let passed = repeat(seconds, || work(&mut sink));
    sink.nic.check()?;
    if sink.bytes.is_empty() {
        return Err(Failure::new("no frame arrives"));
    }
    let guests: Vec<String> =
        sink.bytes.iter().map(|(sender, bytes)| format!("\"{sender}\": {bytes}")).collect();
    Ok(format!("{{\"seconds\": {passed:.6}, \"bytes\": {{{}}}}}", guests.join(", ")))
}
