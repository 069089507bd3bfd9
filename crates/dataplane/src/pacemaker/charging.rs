//! Who causes work pays for it: how many frames each router may still queue on a contended core.
//!
//! A router's work is that of its own threads and what the NIC's threads did for its frames, those
//! that were dropped included (Druschel and Banga, Lazy Receiver Processing, OSDI 1996, charge receive
//! processing to the receiver in the same way). No clock, no kernel.

/// Part of the core that is given away, percent; the rest is for interrupts and switches.
const USABLE_PERCENT: u64 = 96;
/// What a router gets at least, per mille of the core, so that it is never shut out.
const FLOOR_PERMILLE: u64 = 5;
/// A router that loses more than this part of its frames (1/N) wants more than it has.
const HUNGRY_PART: u64 = 200;
/// Own cost of a frame before the first was served, ns.
const UNKNOWN_COST_NS: u64 = 1_000;

/// What a router did and caused over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU weight; 0: its threads run on another core, and only the NIC's work for it is here.
    pub weight: u64,
    /// CPU time of its own threads, ns.
    pub own_ns: u64,
    /// Frames that came for it.
    pub offered: u64,
    /// Of these, frames that went into its queue.
    pub enqueued: u64,
    /// Frames that its threads took from the queue.
    pub served: u64,
    /// Frames dropped because its queue was full or its share used up.
    pub dropped: u64,
}

impl Usage {
    /// Work of the NIC's threads, in units that all frames share: to put a frame into a queue takes
    /// about as long again as to look at it.
    fn nic_units(&self) -> u64 {
        self.offered + self.enqueued
    }

    fn is_hungry(&self) -> bool {
        self.weight > 0 && self.dropped * HUNGRY_PART > self.offered
    }

    /// Forgets an eighth of it.
    pub(super) fn fade(&mut self) {
        for count in [
            &mut self.own_ns,
            &mut self.offered,
            &mut self.enqueued,
            &mut self.served,
            &mut self.dropped,
        ] {
            *count -= *count / 8;
        }
    }
}

/// How many frames each router may queue in the same while again; None: as many as come.
///
/// The core's time is divided max-min fairly by weight (Bertsekas and Gallager, Data Networks, 6.5.2);
/// from a router's part goes what the NIC's threads did for it, the rest is its threads'.
#[must_use]
pub fn allowances(core_ns: u64, nic_ns: u64, routers: &[Usage]) -> Vec<Option<u64>> {
    let units: u64 = routers.iter().map(Usage::nic_units).sum();
    let nic_part = |router: &Usage| match units {
        0 => 0,
        units => nic_ns * router.nic_units() / units,
    };
    let demands: Vec<_> = routers
        .iter()
        .map(|router| {
            let demand_ns =
                if router.is_hungry() { u64::MAX } else { router.own_ns + nic_part(router) };
            (router.weight, demand_ns)
        })
        .collect();
    let elsewhere_ns: u64 = routers.iter().filter(|one| one.weight == 0).map(nic_part).sum();
    let usable_ns = (core_ns * USABLE_PERCENT / 100).saturating_sub(elsewhere_ns);
    let parts_ns = max_min(usable_ns, &demands);
    routers
        .iter()
        .zip(parts_ns)
        .map(|(router, part_ns)| {
            router.is_hungry().then(|| {
                let floor_ns = core_ns * FLOOR_PERMILLE / 1000;
                let own_ns = part_ns.saturating_sub(nic_part(router)).max(floor_ns);
                let cost_ns = match router.served {
                    0 => UNKNOWN_COST_NS,
                    served => (router.own_ns / served).max(1),
                };
                (own_ns / cost_ns).max(1)
            })
        })
        .collect()
}

/// Divides an amount among demands (weight, amount) max-min fairly.
fn max_min(mut left: u64, demands: &[(u64, u64)]) -> Vec<u64> {
    let mut parts = vec![0; demands.len()];
    let mut open: Vec<usize> = (0..demands.len()).collect();
    loop {
        let weights: u64 = open.iter().map(|&i| demands[i].0).sum();
        if weights == 0 {
            return parts;
        }
        let (fits, rest): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|&i| demands[i].1 <= left * demands[i].0 / weights);
        if fits.is_empty() {
            for i in rest {
                parts[i] = left * demands[i].0 / weights;
            }
            return parts;
        }
        for i in fits {
            parts[i] = demands[i].1;
            left -= demands[i].1;
        }
        open = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn victim() -> Usage {
        Usage { weight: 100, own_ns: 220_000, offered: 200, enqueued: 200, served: 200, dropped: 0 }
    }

    fn aggressor() -> Usage {
        Usage {
            weight: 100,
            own_ns: 150_000,
            offered: 1600,
            enqueued: 150,
            served: 150,
            dropped: 1450,
        }
    }

    #[test]
    fn the_aggressor_pays_for_what_its_drops_cost() {
        let found = allowances(MS, 600_000, &[victim(), aggressor()]);
        assert_eq!(found[0], None, "a router within its share is not held back");
        // 960 us, less the victim's 220 + 600 * 400 / 2150, less the NIC's work for the aggressor.
        let own_ns = 960_000 - (220_000 + 111_627) - 600_000 * 1750 / 2150;
        assert_eq!(found[1], Some(own_ns / 1000));
    }

    #[test]
    fn a_flood_that_takes_more_than_the_share_leaves_the_floor() {
        let flood = Usage { offered: 6000, dropped: 5850, ..aggressor() };
        assert_eq!(allowances(MS, 900_000, &[victim(), flood])[1], Some(5));
    }

    #[test]
    fn two_hungry_routers_share_by_weight_after_each_has_paid() {
        let heavy = Usage { weight: 200, ..aggressor() };
        let found = allowances(MS, 0, &[heavy, aggressor()]);
        assert_eq!(found, [Some(640), Some(320)]);
    }

    #[test]
    fn a_router_on_another_core_takes_only_what_the_nic_does_for_it() {
        let other = Usage { weight: 0, own_ns: 0, ..aggressor() };
        let found = allowances(MS, 400_000, &[other, aggressor()]);
        assert_eq!(found, [None, Some((960_000 - 200_000 - 200_000) / 1000)]);
    }

    #[test]
    fn a_router_that_was_never_served_is_let_in() {
        let fresh = Usage { own_ns: 0, served: 0, enqueued: 0, ..aggressor() };
        assert!(allowances(MS, 100_000, &[fresh])[0].is_some_and(|frames| frames > 0));
    }

    #[test]
    fn nothing_offered_is_no_division_by_zero() {
        assert_eq!(allowances(MS, 5, &[Usage::default()]), [None]);
    }

    proptest::proptest! {
        #[test]
        fn max_min_gives_no_more_than_there_is_and_wastes_nothing(
            left in 0u64..1_000_000,
            demands in proptest::collection::vec((1u64..1000, 0u64..1_000_000), 1..10),
        ) {
            let parts = max_min(left, &demands);
            let given: u64 = parts.iter().sum();
            let wanted: u64 = demands.iter().map(|demand| demand.1).sum();
            assert!(given <= left);
            assert!(given + demands.len() as u64 >= left.min(wanted));
            for (part, demand) in parts.iter().zip(&demands) {
                assert!(*part <= demand.1);
            }
        }
    }
}
