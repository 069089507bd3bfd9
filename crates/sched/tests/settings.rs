//! What cannot be is refused, with the value and what would do.

use crate::support::{self, Frame};
use isolane_sched::{
    Config, Error, FlowSettings, Kind, MAX_FLOWS, Order, Scheduler, TokenBucket, Transmission,
};

fn refusal(config: Config) -> String {
    Scheduler::<Frame>::new(config).map(|_| ()).expect_err("it is impossible").to_string()
}

#[test]
fn impossible_configurations_are_refused() {
    let wrr = Transmission { rate_bps: 0, overhead_bytes: 0 };
    let hierarchical =
        |quantum_bytes, burst_bytes| Kind::Hierarchical { quantum_bytes, burst_bytes };
    for (flows, kind, expected) in [
        (0, Kind::Wfq, "flows: 0 is not possible; accepted: 1 to 262144"),
        (MAX_FLOWS + 1, Kind::Wfq, "flows: 262145"),
        (1, Kind::Credit { period_ns: 0, order: Order::InTurn }, "period_ns: 0"),
        (1, Kind::Wrr { transmission: Some(wrr) }, "rate_bps: 0"),
        (1, Kind::Drr { quantum_bytes: 0 }, "quantum_bytes: 0"),
        (1, Kind::Drr { quantum_bytes: 1 << 21 }, "quantum_bytes: 2097152"),
        (1, hierarchical(0, 1), "quantum_bytes: 0"),
        (1, hierarchical(1, u32::MAX), "burst_bytes: 4294967295"),
    ] {
        let message = refusal(Config::new(flows, kind));
        assert!(message.starts_with(expected), "{message}");
    }
    let config = Config::new(1, Kind::Fifo);
    assert!(refusal(Config { queue_packets: 0, ..config.clone() }).starts_with("queue_packets: 0"));
    assert!(refusal(Config { pool_packets: 0, ..config }).starts_with("pool_packets: 0"));
    assert!(TokenBucket::new(1, 0, 0).is_err());
}

#[test]
fn impossible_settings_are_refused_and_change_nothing() {
    let default = FlowSettings::default();
    let kind = Kind::Hierarchical { quantum_bytes: 1_500, burst_bytes: 1_500 };
    let mut scheduler = support::scheduler(2, kind);
    for (settings, expected) in [
        (FlowSettings { weight: 0, ..default }, "weight: 0"),
        (FlowSettings { priority: 8, ..default }, "priority: 8"),
        (FlowSettings { mean_packet_bytes: 0, ..default }, "mean_packet_bytes: 0"),
        (FlowSettings { rate_min_bps: 9, rate_max_bps: Some(8), ..default }, "rate_min_bps: 9"),
    ] {
        let message = scheduler.set(0, settings, 0).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(scheduler.settings(0), Some(&default));
    }
    assert_eq!(scheduler.set(2, default, 0), Err(Error::NoSuchFlow { flow: 2, last: 1 }));
}

#[test]
fn a_setting_without_effect_is_refused() {
    let settings = FlowSettings { rate_min_bps: 1_000, ..FlowSettings::default() };
    for kind in support::kinds() {
        let scheduler_name = kind.name();
        let hierarchical = matches!(kind, Kind::Hierarchical { .. });
        let result = support::scheduler(1, kind).set(0, settings, 0);
        if hierarchical {
            assert_eq!(result, Ok(()));
        } else {
            let refused = Error::NotUsed { key: "rate_min_bps", scheduler: scheduler_name };
            assert_eq!(result, Err(refused));
        }
    }
}

#[test]
fn every_discipline_is_found_by_its_name() {
    for kind in support::kinds() {
        let found = Kind::by_name(kind.name()).expect("it has a name");
        assert_eq!(found.name(), kind.name());
        assert!(
            Scheduler::<Frame>::new(Config::new(1, found)).is_ok(),
            "its defaults are possible"
        );
    }
    assert!(Kind::by_name("DRR").is_none());
}
