//! The fluid reference itself, against a case worked out by hand.

use crate::support::{Arrival, Frame, fluid::Fluid};

fn arrival(at_ns: u64, flow: u32, bytes: u32) -> Arrival {
    Arrival { at_ns, frame: Frame { flow, bytes, id: 0 } }
}

#[test]
fn shares_follow_the_weights_of_those_who_have_something() {
    // Flow 0 alone until 100; then 1:3 until flow 1's 300 bytes are through at 500; then alone.
    let arrivals = [arrival(0, 0, 1_000), arrival(100, 1, 300)];
    let mut fluid = Fluid::new(&[1, 3], &arrivals);
    for (at_ns, flow0, flow1) in
        [(100, 100.0, 0.0), (300, 150.0, 150.0), (500, 200.0, 300.0), (900, 600.0, 300.0)]
    {
        let served = fluid.served_at(at_ns);
        assert!((served[0] - flow0).abs() < 1e-3, "at {at_ns}: {served:?}");
        assert!((served[1] - flow1).abs() < 1e-3, "at {at_ns}: {served:?}");
    }
    let end = fluid.served_at(5_000);
    assert!((end[0] - 1_000.0).abs() < 1e-3 && (end[1] - 300.0).abs() < 1e-3, "{end:?}");
}
