//! Settings and counts of queues, ports and budgets, as the programs have them in memory
//! (`bpf/include/policy.h`; the skeletons bring its types).

use super::{Plane, host};
use crate::{Error, Result, mapped::MappedArray};

/// A token bucket: tokens are frames, or bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// Tokens a second; 0: no limit.
    pub rate: u64,
    /// Most tokens at a time.
    pub depth: u64,
}

/// A ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// In frames.
    pub frames: TokenBucket,
    /// In bits on the wire.
    pub bits: TokenBucket,
}

impl RateLimits {
    /// Puts them into buckets; the tokens there stay.
    fn write(self, buckets: &mut [host::isl_bucket; 2]) {
        for (to, from) in buckets.iter_mut().zip([self.frames, self.bits]) {
            (to.rate, to.depth) = (from.rate, from.depth);
        }
    }

    fn read(buckets: &[host::isl_bucket; 2]) -> Self {
        let [frames, bits] =
            buckets.map(|bucket| TokenBucket { rate: bucket.rate, depth: bucket.depth });
        Self { frames, bits }
    }
}

/// How a queue is to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Frames that may wait where it always has too much; 0: the queue is not in use.
    pub limit: u32,
    /// Frames that may wait where it refuses one for eight that it takes, or fewer.
    pub burst_limit: u32,
    /// Forward by XDP what needs nothing of the kernel.
    pub xdp: bool,
    /// Whether a program at its end counts what leaves: only then can `limit` hold.
    pub counted: bool,
    /// Number of the router's budget of CPU time; None: no cap.
    pub budget: Option<u32>,
    /// What may come in.
    pub ingress: RateLimits,
}

/// What has happened to a queue, frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Frames waiting now; 0 where nobody counts what leaves.
    pub waiting: u32,
    /// Frames that came for the router.
    pub offered: u64,
    /// Their bytes, with the frame check sequence.
    pub offered_bytes: u64,
    /// Dropped because the queue was full.
    pub dropped_queue: u64,
    /// Dropped because they exceeded `rate_max`.
    pub dropped_rate: u64,
    /// Dropped because the router had used up its CPU time.
    pub dropped_cpu: u64,
    /// Dropped because they were longer than the router's interface takes.
    pub dropped_size: u64,
    /// Dropped because the router had had its share of the core, and another had frames waiting.
    pub dropped_share: u64,
    /// Frames that the router took from the queue.
    pub served: u64,
    /// Of these, forwarded by XDP.
    pub forwarded: u64,
    /// Their bytes, with the frame check sequence.
    pub forwarded_bytes: u64,
    /// Frames that the NIC's driver had no place for a number of: they are no part of the queue.
    pub untagged: u32,
}

/// How a port is to work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSettings {
    /// Interface to send to; 0: the host's bridge or routes decide.
    pub uplink: u32,
    /// Class of the uplink's qdisc, as in `skb->priority`; 0: none.
    pub class: u32,
    /// What may go out.
    pub egress: RateLimits,
}

/// What has happened at a port, frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that the router sent.
    pub offered: u64,
    /// Their bytes, with the frame check sequence.
    pub offered_bytes: u64,
    /// Dropped because they exceeded `rate_max`.
    pub dropped_rate: u64,
    /// Dropped because they were longer than the uplink takes.
    pub dropped_size: u64,
}

/// A router's budget of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// CPU time a second, ns; 0: no cap.
    pub rate_ns: u64,
    /// Most that can be saved up, ns.
    pub depth_ns: u64,
    /// The router's weight on the NIC's core, on which it pays for what its frames cost the NIC's
    /// thread; 0: it does not.
    pub weight: u32,
}

impl From<&host::isl_queue> for QueueSettings {
    fn from(queue: &host::isl_queue) -> Self {
        Self {
            limit: queue.limit,
            burst_limit: queue.burst_limit,
            xdp: queue.forward_xdp != 0,
            counted: queue.uncounted == 0,
            budget: queue.budget.checked_sub(1),
            ingress: RateLimits::read(&queue.ingress),
        }
    }
}

impl From<&host::isl_queue> for QueueCounts {
    fn from(queue: &host::isl_queue) -> Self {
        let counted = queue.uncounted == 0;
        Self {
            waiting: if counted { queue.enqueued.wrapping_sub(queue.dequeued) } else { 0 },
            offered: queue.offered,
            offered_bytes: queue.offered_bytes,
            dropped_queue: queue.dropped_queue,
            dropped_rate: queue.dropped_rate,
            dropped_cpu: queue.dropped_cpu,
            dropped_size: queue.dropped_size,
            dropped_share: queue.dropped_share,
            served: queue.served,
            forwarded: queue.forwarded,
            forwarded_bytes: queue.forwarded_bytes,
            untagged: queue.untagged,
        }
    }
}

impl From<&host::isl_port> for PortSettings {
    fn from(port: &host::isl_port) -> Self {
        Self { uplink: port.uplink, class: port.class, egress: RateLimits::read(&port.egress) }
    }
}

impl From<&host::isl_port> for PortCounts {
    fn from(port: &host::isl_port) -> Self {
        Self {
            offered: port.offered,
            offered_bytes: port.offered_bytes,
            dropped_rate: port.dropped_rate,
            dropped_size: port.dropped_size,
        }
    }
}

impl Plane {
    /// Sets a queue; counts and waiting frames stay.
    pub fn set_queue(&mut self, slot: usize, settings: &QueueSettings) -> Result<()> {
        change(&mut self.queues, "queues", slot, |queue| {
            queue.forward_xdp = u8::from(settings.xdp);
            queue.uncounted = u8::from(!settings.counted);
            queue.budget = settings.budget.map_or(0, |number| number + 1);
            settings.ingress.write(&mut queue.ingress);
            queue.burst_limit = settings.burst_limit;
            queue.limit = settings.limit;
        })
    }

    /// Forgets a queue with its counts.
    pub fn clear_queue(&mut self, slot: usize) -> Result<()> {
        change(&mut self.queues, "queues", slot, |queue| *queue = host::isl_queue::default())
    }

    /// Settings of a queue; None when it is not in use.
    pub fn queue(&self, slot: usize) -> Result<Option<QueueSettings>> {
        let queue = copy(&self.queues, "queues", slot)?;
        Ok((queue.limit > 0).then(|| QueueSettings::from(&queue)))
    }

    /// Counts of a queue; None when it is not in use.
    pub fn queue_counts(&self, slot: usize) -> Result<Option<QueueCounts>> {
        let queue = copy(&self.queues, "queues", slot)?;
        Ok((queue.limit > 0).then(|| QueueCounts::from(&queue)))
    }

    /// Sets a port; counts stay.
    pub fn set_port(&mut self, number: usize, settings: &PortSettings) -> Result<()> {
        change(&mut self.ports, "ports", number, |port| {
            settings.egress.write(&mut port.egress);
            (port.uplink, port.class) = (settings.uplink, settings.class);
        })
    }

    /// Forgets a port with its counts.
    pub fn clear_port(&mut self, number: usize) -> Result<()> {
        change(&mut self.ports, "ports", number, |port| *port = host::isl_port::default())
    }

    /// Settings of a port.
    pub fn port(&self, number: usize) -> Result<PortSettings> {
        copy(&self.ports, "ports", number).map(|port| PortSettings::from(&port))
    }

    /// Counts of a port.
    pub fn port_counts(&self, number: usize) -> Result<PortCounts> {
        copy(&self.ports, "ports", number).map(|port| PortCounts::from(&port))
    }

    /// Sets a router's budget of CPU time.
    pub fn set_budget(&mut self, number: usize, budget: Budget) -> Result<()> {
        change(&mut self.budgets, "budgets", number, |entry| {
            if entry.rate_ns == 0 {
                // What it has run for without a cap does not count.
                entry.charged_ns = entry.spent_ns;
            }
            (entry.rate_ns, entry.depth_ns) = (budget.rate_ns, budget.depth_ns);
            entry.weight = budget.weight;
        })
    }

    /// A router's budget of CPU time.
    pub fn budget(&self, number: usize) -> Result<Budget> {
        let found = copy(&self.budgets, "budgets", number)?;
        Ok(Budget { rate_ns: found.rate_ns, depth_ns: found.depth_ns, weight: found.weight })
    }

    /// What a router's frames have cost the threads of the NICs, ns; 0 where it does not pay for it.
    pub fn nic_ns(&self, number: usize) -> Result<u64> {
        copy(&self.budgets, "budgets", number).map(|found| found.nic_ns)
    }
}

fn change<T: Copy + Default>(
    array: &mut MappedArray<T>,
    name: &'static str,
    index: usize,
    change: impl FnOnce(&mut T),
) -> Result<()> {
    let len = array.len();
    array.update(index, change).ok_or_else(|| out_of_range(name, index, len))
}

fn copy<T: Copy + Default>(array: &MappedArray<T>, name: &'static str, index: usize) -> Result<T> {
    let found = array.read(index..index.saturating_add(1));
    found
        .and_then(|copy| copy.first().copied())
        .ok_or_else(|| out_of_range(name, index, array.len()))
}

fn out_of_range(key: &'static str, value: usize, len: usize) -> Error {
    Error::Spec { key, value: value.to_string(), accepted: format!("fewer than {len}") }
}
