//! How fast timers are: `cargo test --release -p pyrmq-broker timer::speed -- --ignored --nocapture`.
//! `PYRMQ_TIMERS` says how many wait.

use super::testing::{Rig, T};
use std::time::Instant;

const DAY: i64 = 86_400_000;

/// Private memory that was touched, MiB.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    };
    of("RssAnon") >> 10
}

fn told(what: &str, count: usize, since: Instant) {
    let seconds = since.elapsed().as_secs_f64();
    println!(
        "{what}: {count} in {seconds:.2} s, {:.0}/s, {} MiB",
        count as f64 / seconds,
        memory()
    );
}

#[test]
#[ignore = "a measurement"]
fn timers() {
    let count: usize = std::env::var("PYRMQ_TIMERS").map_or(1_000_000, |n| n.parse().unwrap());
    let rig = Rig::large();
    let since = Instant::now();
    let body = "x".repeat(100);
    // Some come at once, the others over a day.
    let at_once = count / 10;
    for n in 0..count {
        let out = match n < at_once {
            true => T + 5000,
            false => T + 10_000 + (n as i64 * 7919 % (DAY / 1000)) * 1000,
        };
        rig.park(out, &body);
    }
    told("stored", count, since);
    let since = Instant::now();
    rig.enqueue(T);
    told("enqueued", count, since);
    let since = Instant::now();
    rig.keep();
    told("kept", 1, since);
    let since = Instant::now();
    assert_eq!(rig.deliver(T + 6000), at_once);
    told("delivered of one slot", at_once, since);
    let since = Instant::now();
    let later = rig.deliver(T + DAY / 4);
    told("delivered of many slots", later, since);
    rig.keep();
    let since = Instant::now();
    let again = rig.opened_again();
    told("opened", again.timers.figures(T).waiting as usize, since);
    let since = Instant::now();
    let rebuilt = again.opened_again_without("timerwheel");
    told(
        "opened, wheel made again",
        rebuilt.timers.figures(T).waiting as usize,
        since,
    );
    let since = Instant::now();
    let rebuilt = rebuilt.opened_again_without("timerlog");
    rebuilt.enqueue(T + DAY / 4);
    told(
        "all made again",
        rebuilt.timers.figures(T).waiting as usize,
        since,
    );
}
