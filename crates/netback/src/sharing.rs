//! What may change while the back-end works: how uplinks send, and what ports are guaranteed.

use isolane_sched::{BackPressure, FlowSettings, Kind, MAX_BURST_BYTES, TokenBucket};

/// How an uplink sends.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Who sends next.
    pub scheduler: Kind,
    /// Whether the link is looked at before a frame is scheduled.
    pub back_pressure: BackPressure,
    /// Rate of the link, bit/s on the wire; none: as fast as the interface takes frames.
    pub rate_bps: Option<u64>,
    /// What it takes ahead of that rate, ns of it; none: 4 ms. At least ten of the longest frames.
    pub burst_ns: Option<u64>,
}

/// The shares of a back-end's uplinks.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Of each uplink.
    pub links: Vec<LinkSettings>,
    /// Of each port.
    pub ports: Vec<FlowSettings>,
}

/// Why a sharing was refused; nothing was changed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// A scheduler does not take what a port is to be guaranteed.
    #[error("port {port}: {why}")]
    Port {
        /// Index of the port.
        port: usize,
        /// What is wrong.
        why: isolane_sched::Error,
    },
    /// It has another number of uplinks or ports.
    #[error("another number of uplinks or ports")]
    Count,
    /// The back-end has ended.
    #[error(transparent)]
    Ended(#[from] crate::Ended),
}

/// Bytes that Ethernet adds to a frame on the wire: preamble 8, check sequence 4, gap 12.
const OVERHEAD_BYTES: u32 = 24;
/// The shortest frame on the wire, bytes, without its check sequence.
const SHORTEST_BYTES: u32 = 60;

/// What a frame takes of a link, bytes.
pub(crate) fn wire_bytes(frame_bytes: u32) -> u32 {
    frame_bytes.max(SHORTEST_BYTES) + OVERHEAD_BYTES
}

/// A link of some rate: when the next frame may be sent.
#[derive(Debug)]
pub(crate) struct Pace {
    bucket: Option<TokenBucket>,
}

/// What a link catches up with at most after a pause, ns of its rate, unless its settings say otherwise; at
/// least so many of the longest frames.
const BURST_NS: u64 = 4_000_000;
const BURST_BYTES: u64 = 10 * 1_546;

impl Pace {
    pub(crate) fn new(link: &LinkSettings, now_ns: u64) -> Self {
        let bucket = |rate| {
            TokenBucket::new(rate, burst_of(rate, link.burst_ns), now_ns).expect("within bounds")
        };
        Self { bucket: link.rate_bps.map(bucket) }
    }

    /// Has another rate and burst from now on. What was sent before counts.
    pub(crate) fn change(&mut self, link: &LinkSettings, now_ns: u64) {
        match (&mut self.bucket, link.rate_bps) {
            (Some(bucket), Some(rate)) => {
                bucket.set_rate(rate, now_ns);
                bucket.set_burst(burst_of(rate, link.burst_ns), now_ns).expect("within bounds");
            }
            _ => *self = Self::new(link, now_ns),
        }
    }

    /// When it takes the next frame.
    pub(crate) fn free_ns(&mut self, now_ns: u64) -> u64 {
        let ready = |bucket: &mut TokenBucket| bucket.ready_ns(1, now_ns).unwrap_or(u64::MAX);
        self.bucket.as_mut().map_or(now_ns, ready)
    }

    /// A frame was sent.
    pub(crate) fn sent(&mut self, wire_bytes: u32, now_ns: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.charge(wire_bytes, now_ns);
        }
    }
}

fn burst_of(rate_bps: u64, burst_ns: Option<u64>) -> u64 {
    let bits = u128::from(rate_bps) * u128::from(burst_ns.unwrap_or(BURST_NS)) / 1_000_000_000;
    u64::try_from(bits / 8).unwrap_or(u64::MAX).clamp(BURST_BYTES, MAX_BURST_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(rate_bps: Option<u64>, burst_ns: Option<u64>) -> LinkSettings {
        LinkSettings { scheduler: Kind::Fifo, back_pressure: BackPressure::On, rate_bps, burst_ns }
    }

    proptest! {
        /// Whenever it is asked, a link that always has frames sends at its rate: never more than
        /// the burst and one frame ahead, and nothing is lost as long as no pause is longer than
        /// the burst lasts.
        #[test]
        fn a_busy_link_keeps_its_rate(
            rate_bps in 1_000_000..40_000_000_000u64,
            bytes in 60..1_522u32,
            burst_ns in prop::option::of(2_000_000..100_000_000u64),
            pauses_ns in prop::collection::vec(0..1_000_000u64, 50..200),
        ) {
            let frame = wire_bytes(bytes);
            let mut pace = Pace::new(&link(Some(rate_bps), burst_ns), 0);
            let (mut now_ns, mut sent) = (0, 0u128);
            for pause_ns in pauses_ns {
                now_ns += pause_ns;
                while pace.free_ns(now_ns) == now_ns {
                    pace.sent(frame, now_ns);
                    sent += u128::from(frame);
                }
            }
            let due = u128::from(rate_bps) * u128::from(now_ns) / 8_000_000_000;
            let ahead = u128::from(burst_of(rate_bps, burst_ns) + u64::from(frame));
            prop_assert!(sent <= due + ahead, "{sent} of {due}");
            prop_assert!(sent >= due, "{sent} of {due}");
        }
    }

    #[test]
    fn short_frames_are_filled_up_on_the_wire() {
        assert_eq!([14, 60, 1_514].map(wire_bytes), [84, 84, 1_538]);
    }

    #[test]
    fn a_link_without_a_rate_is_always_free() {
        let mut pace = Pace::new(&link(None, None), 5);
        pace.sent(1_546, 5);
        assert_eq!(pace.free_ns(5), 5);
    }

    #[test]
    fn another_rate_does_not_forgive_what_was_sent() {
        let mut pace = Pace::new(&link(Some(8_000_000), None), 0); // a byte takes a microsecond
        while pace.free_ns(0) == 0 {
            pace.sent(1_546, 0);
        }
        pace.sent(1_546, 0);
        pace.change(&link(Some(80_000_000), None), 0);
        assert!(pace.free_ns(0) > 1_546 * 100 - 1_000);
        pace.change(&link(None, None), 0);
        assert_eq!(pace.free_ns(0), 0);
    }

    #[test]
    fn a_burst_is_what_is_taken_at_once() {
        let at_once = |burst_ns| {
            let mut pace = Pace::new(&link(Some(100_000_000), burst_ns), 0);
            let taken = |_: &u32| {
                let free = pace.free_ns(0) == 0;
                pace.sent(1_538, 0);
                free
            };
            (0..1_000).take_while(taken).count()
        };
        // 12,500 bytes a millisecond; the last frame needs a single byte of them.
        assert_eq!([None, Some(4_000_000)].map(at_once), [33, 33]);
        assert_eq!(at_once(Some(20_000_000)), 163);
        assert_eq!(at_once(Some(1)), 11, "ten of the longest frames at least");
    }
}
