//! Timers against a plain list: whatever happens, what waits comes once, in order, and not early.

use super::testing::{Rig, T, settings};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    /// A message that is due so many seconds from now.
    Park(i64),
    /// Takes one of the messages back, whether it waits or not.
    Recall(usize),
    Enqueue,
    /// The clock goes on, or back, and what is due is delivered, not all of it perhaps.
    Deliver(i64, usize),
    Keep,
    Kill,
    /// The wheel, the timer log or the check point is lost in a kill.
    Lose(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (-20i64..150).prop_map(Step::Park),
        2 => (0usize..60).prop_map(Step::Recall),
        2 => Just(Step::Enqueue),
        3 => ((-10i64..40), (1usize..20)).prop_map(|(s, n)| Step::Deliver(s, n)),
        2 => Just(Step::Keep),
        1 => Just(Step::Kill),
        1 => (0u8..4).prop_map(Step::Lose),
    ]
}

/// What was sent: when it is due, and whether it was taken back in time.
struct Sent {
    out: i64,
    recalled: bool,
}

fn lose(root: &std::path::Path, what: u8) {
    let _ = match what {
        0 => std::fs::remove_file(root.join("timerwheel")),
        1 => std::fs::remove_dir_all(root.join("timerlog")),
        2 => std::fs::remove_file(root.join("config/timercheck")),
        _ => std::fs::write(root.join("timerwheel"), b"short"),
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_happens_what_waits_comes_once(steps in prop::collection::vec(step(), 1..60)) {
        let few = Settings { roll_window: 50, ..settings() };
        let mut rig = Rig::of(few);
        let mut now = T;
        let mut sent: Vec<Sent> = Vec::new();
        for step in &steps {
            match *step {
                Step::Park(seconds) => {
                    let out = (now / 1000 + seconds) * 1000;
                    rig.park(out, &sent.len().to_string());
                    sent.push(Sent { out, recalled: false });
                }
                Step::Recall(n) if n < sent.len() => {
                    let came = rig.got().contains(&n.to_string());
                    rig.recall(sent[n].out, &n.to_string());
                    sent[n].recalled |= !came;
                }
                Step::Recall(_) => {}
                Step::Enqueue => rig.enqueue(now),
                Step::Deliver(seconds, most) => {
                    now += seconds * 1000;
                    let done = rig.timers.deliver(now, most);
                    prop_assert!(done.error.is_none());
                }
                Step::Keep => rig.keep(),
                Step::Kill => rig = rig.killed_with(now, few, |_| ()),
                Step::Lose(what) => rig = rig.killed_with(now, few, |root| lose(root, what)),
            }
            for logged in rig.in_topic(super::testing::TOPIC) {
                let number = |name| -> i64 { logged.property(name).unwrap().parse().unwrap() };
                let out = number(pyrmq_format::timer::OUT_MS);
                prop_assert!(number(pyrmq_format::timer::DEQUEUE_MS) >= out + 1000, "early");
            }
        }
        // Rolls need a while.
        for _ in 0..8 {
            now += 60_000;
            rig.deliver(now);
        }
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for body in rig.got() {
            *count.entry(body).or_default() += 1;
        }
        for (n, sent) in sent.iter().enumerate() {
            let came = count.get(&n.to_string()).copied().unwrap_or(0);
            prop_assert_eq!(came, usize::from(!sent.recalled), "{} of {:?}", n, &steps);
        }
        prop_assert_eq!(rig.timers.figures(now).waiting.max(0), 0);
        prop_assert_eq!(rig.timers.due_in(now), None);
    }
}
