//! When the back-end has nothing to do: how long it may rest, what it waits for, and what has changed then.

use std::{io, time::Duration};

use super::Netback;
use crate::{
    CutOff,
    clock::monotonic_ns,
    guest::GuestSide,
    output::Output,
    poller::Interest,
    port::Port,
    token::{CARRIER, COMMAND, CONNECTION, INTERFACE, KICK, LISTENER, UPLINK, token},
};

/// Messages of one front-end carried out before the next one's turn.
const MESSAGES: u32 = 16;
/// Between two looks whether routers that frames wait for have provided buffers.
const LOOK_NS: u64 = 50_000;

/// Between two looks at rings whose guests do not say when they transmit.
pub(super) const POLL_NS: u64 = 1_000_000;

/// Between two questions to the kernel what it lost, which it counts in 32 bits: enough for 400 million
/// frames a second.
pub(super) const LOSSES_NS: u64 = 10_000_000_000;

impl Netback {
    /// Prepares for a pause: guests kick from now on. Returns how long it may be.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        for number in 0..self.ports.len() {
            match self.ports[number].enable_kicks() {
                Ok(false) => {}
                Ok(true) if self.ports[number].staging.free() < self.refill => {}
                Ok(true) => return Some(Duration::ZERO),
                Err(reason) => {
                    self.detach(number);
                    self.ports[number].cut_off(&reason);
                }
            }
        }
        let due = self.ports.iter().filter_map(Port::due_ns);
        let scheduled = self.outputs.iter().filter_map(Output::sends_at_ns);
        let later = self.later.front().map(|&(from_ns, _)| from_ns);
        let next_ns = due.chain(scheduled).chain(later).chain([self.losses_at_ns]).min();
        let limit = next_ns.map(|next_ns| next_ns.saturating_sub(monotonic_ns()));
        // Nobody tells when a router provides buffers again.
        let looks = (!self.backlogs.is_empty()).then_some(LOOK_NS);
        let polls = self.ports.iter_mut().any(Port::is_polled).then_some(POLL_NS);
        limit.into_iter().chain(looks).chain(polls).min().map(Duration::from_nanos)
    }

    /// Waits for descriptors, and does what they are about. Returns whether it is to end.
    pub(super) fn wait(&mut self, limit: Option<Duration>) -> io::Result<bool> {
        for (number, output) in self.outputs.iter_mut().enumerate() {
            output.watch(&self.poller, token(UPLINK, number))?;
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            let can_take = port.staging.free() >= self.refill;
            if let Some(interface) = port.interface_mut() {
                interface.watch(&self.poller, token(INTERFACE, number), can_take)?;
            }
        }
        let mut ready = Vec::new();
        self.poller
            .wait(limit, |token| ready.push((token >> 32, (token & 0xffff_ffff) as usize)))?;
        // Kicks first: what follows may replace the descriptor that was ready by another one.
        for &(_, number) in ready.iter().filter(|(kind, _)| *kind == KICK) {
            if !self.ports[number].guest().is_none_or(GuestSide::take_kick) {
                self.forget_kick(number);
            }
        }
        for (kind, number) in ready {
            match kind {
                LISTENER => self.changed(number, |port| {
                    if let Some(guest) = port.guest_mut() {
                        guest.accept();
                    }
                }),
                INTERFACE => {
                    if let Some(interface) = self.ports[number].interface_mut() {
                        interface.take_error();
                    }
                }
                CONNECTION => self.changed(number, |port| port.serve(MESSAGES)),
                // What has arrived is taken in the next round.
                UPLINK => self.outputs[number].uplink.take_error(),
                COMMAND if self.obey() => return Ok(true),
                CARRIER => self.hear_of_carriers(),
                _ => {}
            }
        }
        let now_ns = monotonic_ns();
        for port in &mut self.ports {
            port.disable_kicks();
            port.in_time(now_ns, &self.carriers);
        }
        self.count_losses(now_ns);
        Ok(false)
    }

    /// Takes over what the kernel counted as lost, if it is time for that.
    pub(super) fn count_losses(&mut self, now_ns: u64) {
        if now_ns < self.losses_at_ns {
            return;
        }
        self.losses_at_ns = now_ns + LOSSES_NS;
        self.outputs.iter_mut().for_each(|output| output.uplink.count_losses());
        for interface in self.ports.iter_mut().filter_map(Port::interface_mut) {
            interface.count_losses();
        }
    }

    /// Does something that may change a port's descriptors: none is closed while it is waited for.
    fn changed(&mut self, number: usize, act: impl FnOnce(&mut Port)) {
        self.detach(number);
        act(&mut self.ports[number]);
        if let Err(source) = self.watch_guest(number) {
            // The kernel waits neither for every kind of descriptor nor for an epoll instance in four
            // others: that is the matter of whoever gave us this one.
            self.detach(number);
            let action = "waiting for a descriptor of its front-end";
            self.ports[number].cut_off(&CutOff::System { action, source });
        }
    }

    /// Has the poller wait for what a port's guest sends by.
    fn watch_guest(&self, number: usize) -> io::Result<()> {
        let Some(guest) = self.ports[number].guest() else {
            return Ok(());
        };
        if let Some(connection) = guest.connection() {
            let unsent = guest.has_unsent();
            let what = if unsent { Interest::ReadAndWrite } else { Interest::Read };
            self.poller.add(connection, token(CONNECTION, number), what)?;
        }
        if let Some(kick) = guest.kick() {
            self.poller.add(kick, token(KICK, number), Interest::Read)?;
        }
        Ok(())
    }

    /// A descriptor that stays readable would keep the loop awake.
    fn forget_kick(&self, number: usize) {
        if let Some(kick) = self.ports[number].guest().and_then(GuestSide::kick) {
            let _ = self.poller.remove(kick);
        }
    }

    pub(super) fn detach(&self, number: usize) {
        if let Some(guest) = self.ports[number].guest() {
            for fd in [guest.connection(), guest.kick()].into_iter().flatten() {
                let _ = self.poller.remove(fd);
            }
        }
    }

    /// Has interfaces know whether they have a carrier.
    pub(super) fn hear_of_carriers(&mut self) {
        let Self { carriers, outputs, ports, .. } = self;
        let now_ns = monotonic_ns();
        if carriers.hear(|ifindex, is_there| set_carrier(outputs, ports, ifindex, is_there, now_ns))
        {
            return;
        }
        for ifindex in self.ifindices() {
            if self.carriers.ask(ifindex).is_err() {
                // As where the kernel answers with an error.
                set_carrier(&mut self.outputs, &mut self.ports, ifindex, true, now_ns);
            }
        }
    }

    /// Its interfaces.
    fn ifindices(&mut self) -> Vec<u32> {
        let uplinks = self.outputs.iter().map(|output| output.uplink.ifindex());
        let interfaces = self.ports.iter_mut().filter_map(Port::interface_mut);
        uplinks.chain(interfaces.map(|interface| interface.ifindex())).collect()
    }
}

/// Has an interface know whether it has a carrier, wherever it is used.
fn set_carrier(
    outputs: &mut [Output],
    ports: &mut [Port],
    ifindex: u32,
    is_there: bool,
    now_ns: u64,
) {
    let uplinks = outputs.iter_mut().map(|output| &mut output.uplink);
    uplinks.filter(|one| one.ifindex() == ifindex).for_each(|one| one.set_carrier(is_there));
    for interface in ports.iter_mut().filter_map(Port::interface_mut) {
        interface.set_carrier(ifindex, is_there, now_ns);
    }
}
