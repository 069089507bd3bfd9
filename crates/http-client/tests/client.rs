//! The client against a server that does as its path says, on loopback.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::atomic::Ordering,
    thread,
    time::Duration,
};

use isolane_http_client::{Arrivals, Control, Failure, Plan, Report, run};
use rustix::time::{ClockId, clock_gettime};

const MINUTES_NS: u64 = 600_000_000_000;
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LAST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";

/// Serves until the test's process ends.
fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    for number in 1.. {
        let Some((path, closes)) = read_request(&mut lines) else { return };
        let (text, ends) = match path.as_str() {
            "/close" => (OK, true), // without a word of warning
            "/third" => (OK, number == 3),
            "/cut" => (&OK[..OK.len() - 1], true),
            "/nothing" => ("", true),
            "/garbage" => ("220 ready\r\n", true),
            "/missing" => ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", closes),
            "/never" => ("", false),
            "/once" => (if number == 1 { OK } else { "" }, false),
            _ if closes => (LAST, true),
            _ => (OK, false),
        };
        if stream.write_all(text.as_bytes()).is_err() || ends {
            return;
        }
    }
}

/// Reads a request; returns its path and whether it is the last one.
fn read_request(lines: &mut impl BufRead) -> Option<(String, bool)> {
    let (mut path, mut closes) = (None, false);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some((path?, closes));
        }
        closes |= line == "Connection: close\r\n";
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
    }
}

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap()
}

fn plan(server: SocketAddr, path: &str) -> Plan {
    Plan {
        server,
        host: "test".into(),
        path: path.into(),
        arrivals: Arrivals::Open { rate_millirps: 200_000, poisson_seed: None },
        keep_alive: false,
        max_connections: 100,
        start_ns: None,
        warm_up_ns: 100_000_000,
        window_ns: 500_000_000,
        timeout_ns: MINUTES_NS,
        own_core: false,
    }
}

fn report(plan: &Plan) -> Report {
    let report = run(plan, &Control::default()).unwrap();
    assert_eq!(report.offered, report.answered + report.failed_in_all());
    assert_eq!(report.latency.count(), report.answered);
    assert_eq!(report.window_ns, plan.window_ns);
    report
}

fn alone(failure: Failure, count: u64) -> [u64; 9] {
    Failure::ALL.map(|kind| if kind == failure { count } else { 0 })
}

#[test]
fn an_open_loop_offers_what_it_is_asked_for() {
    let found = report(&plan(serve(), "/"));
    assert_eq!((found.offered, found.answered), (100, 100));
    assert_eq!((found.late.count(), found.connect.count()), (100, 100));
    assert!(found.completed <= 120 && found.completed_bytes == 5 * found.completed);
    assert!(found.latency.max_ns() >= found.connect.max_ns());
}

#[test]
fn it_begins_when_it_is_told_to() {
    let start_ns = monotonic_ns() + 300_000_000;
    for arrivals in [plan(serve(), "/").arrivals, Arrivals::Closed { requests: 3 }] {
        let later =
            Plan { arrivals, start_ns: Some(start_ns), warm_up_ns: 0, ..plan(serve(), "/") };
        let found = report(&later);
        assert!(monotonic_ns() >= start_ns + later.window_ns);
        assert!(found.offered > 0 && found.offered == found.answered);
        assert!(found.latency.max_ns() < Some(MINUTES_NS), "counted from then on");
    }
}

#[test]
fn kept_connections_are_used_again() {
    let kept = Plan { keep_alive: true, max_connections: 1, ..plan(serve(), "/") };
    let found = report(&kept);
    assert_eq!((found.answered, found.connections, found.max_in_flight), (100, 0, 1));
    assert_eq!(found.connect.count(), 0, "the one connection is of the warm-up");
}

#[test]
fn a_connection_that_the_server_closed_is_no_failure() {
    for path in ["/close", "/third"] {
        let kept = Plan { keep_alive: true, max_connections: 1, ..plan(serve(), path) };
        let found = report(&kept);
        assert_eq!(found.answered, 100, "{path}");
        assert!(found.connections >= 100 / 3 && found.retried <= found.connections, "{path}");
    }
}

#[test]
fn each_failure_has_its_reason() {
    let server = serve();
    for (path, failure) in [
        ("/cut", Failure::CutShort),
        ("/nothing", Failure::CutShort),
        ("/garbage", Failure::Malformed),
        ("/missing", Failure::Status),
    ] {
        let found = report(&plan(server, path));
        assert_eq!((found.failed, found.answered), (alone(failure, 100), 0), "{path}");
        let told = if failure == Failure::Status { vec![(404, 100)] } else { vec![] };
        assert_eq!(found.statuses.into_iter().collect::<Vec<_>>(), told, "{path}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(report(&plan(nobody, "/")).failed, alone(Failure::Refused, 100));
}

#[test]
fn what_is_never_answered_times_out_from_its_intended_time() {
    let timeout_ns = 200_000_000;
    let hung = Plan { timeout_ns, max_connections: 7, ..plan(serve(), "/never") };
    let found = report(&hung);
    assert_eq!(found.failed, alone(Failure::TimedOut, 100));
    assert!(found.max_in_flight <= 7);
}

#[test]
fn a_connection_that_hangs_later_times_out_by_its_last_request() {
    let arrivals = Arrivals::Closed { requests: 2 };
    let kept =
        Plan { arrivals, keep_alive: true, timeout_ns: 200_000_000, ..plan(serve(), "/once") };
    let found = report(&kept);
    let failed = found.failed_in_all();
    assert_eq!(found.failed, alone(Failure::TimedOut, failed));
    assert!(failed > 0);
}

#[test]
fn a_closed_loop_has_so_many_in_flight() {
    for keep_alive in [false, true] {
        let arrivals = Arrivals::Closed { requests: 3 };
        let found = report(&Plan { arrivals, keep_alive, warm_up_ns: 0, ..plan(serve(), "/") });
        assert!(found.answered >= 3 && found.max_in_flight <= 3);
        assert!(found.completed <= found.answered);
        if keep_alive {
            assert_eq!(found.connections, 3);
        }
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    let endless = Plan { window_ns: MINUTES_NS, ..plan(serve(), "/") };
    let control = Control::default();
    let found = thread::scope(|scope| {
        let running = scope.spawn(|| run(&endless, &control).unwrap());
        while control.answers.load(Ordering::Relaxed) < 40 {
            thread::sleep(Duration::from_millis(1));
        }
        control.stop.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(found.window_ns < MINUTES_NS && found.answered > 0);
    assert_eq!(found.offered, found.answered);
}

#[test]
fn a_server_that_does_not_close_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endless = Plan { window_ns: MINUTES_NS, ..plan(listener.local_addr().unwrap(), "/") };
    let control = Control::default();
    thread::scope(|scope| {
        let running = scope.spawn(|| run(&endless, &control).unwrap());
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        assert_eq!(read_request(&mut lines).unwrap(), ("/".to_owned(), true));
        stream.write_all(OK.as_bytes()).unwrap();
        assert_eq!(lines.read_line(&mut String::new()).unwrap(), 0, "the client has closed it");
        control.stop.store(true, Ordering::Relaxed);
        running.join().unwrap();
    });
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let good = plan(serve(), "/");
    let open = |rate_millirps| Arrivals::Open { rate_millirps, poisson_seed: None };
    for bad in [
        Plan { arrivals: open(0), ..good.clone() },
        Plan { arrivals: Arrivals::Closed { requests: 0 }, ..good.clone() },
        Plan { max_connections: 0, ..good.clone() },
        Plan { window_ns: 0, ..good.clone() },
        Plan { timeout_ns: 0, ..good.clone() },
    ] {
        let told = run(&bad, &Control::default()).unwrap_err().to_string();
        assert!(told.contains("accepted: at least"), "{told}");
    }
}
