//! Kills, power cuts and damaged files.

use super::testing::*;
use super::*;
use pyrmq_format::timer;
use std::path::{Path, PathBuf};

#[test]
fn a_kill_loses_nothing_and_delivers_nothing_twice() {
    let rig = Rig::new();
    for n in 0..600 {
        rig.park(T + 1000 * (n / 200), &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    // In the middle of a slot.
    let done = rig.timers.deliver(T + HOUR, 300);
    assert!((300..600).contains(&done.given), "{}", done.given);
    let expected: Vec<_> = (0..600).map(|n| n.to_string()).collect();
    let again = rig.killed(T + HOUR);
    assert_eq!(again.restored.delivered as usize, done.given);
    assert_eq!(again.restored.why, "");
    assert_eq!(again.deliver(T + HOUR), 600 - done.given);
    assert_eq!(again.got(), expected);
    // The same with a check point in the middle.
    rig.keep();
    let again = rig.killed(T + HOUR);
    again.deliver(T + HOUR);
    assert_eq!(again.got(), expected);
    again.keep();
    let last = again.killed(T + HOUR);
    assert_eq!(last.restored.read, 0);
    assert_eq!(last.deliver(T + HOUR), 0);
}

#[test]
fn what_was_late_or_rolled_is_found_after_a_kill() {
    let settings = Settings {
        roll_window: 100,
        ..settings()
    };
    let rig = Rig::with(settings, |_| ());
    rig.park(T + 150_000, "far");
    rig.enqueue(T);
    rig.keep();
    assert_eq!(rig.deliver(T + 101_000), 0);
    rig.park(T + 7000, "late");
    rig.enqueue(T + 101_000);
    // Not delivered: its slot is before that of the check point that follows.
    let again = rig.killed(T + 101_000);
    assert_eq!(again.deliver(T + 102_000), 1);
    rig.deliver(T + 102_000);
    let again = rig.killed(T + 102_000);
    assert_eq!(again.deliver(T + 102_000), 0);
    assert_eq!(again.deliver(T + 151_000), 1);
    assert_eq!(again.got(), ["late", "far"]);
}

#[test]
fn what_a_clock_ahead_delivered_is_not_delivered_again() {
    let rig = Rig::new();
    rig.park(T + 4000, "early");
    rig.deliver(T + 5000);
    rig.park(T + 6000, "next");
    rig.enqueue(T + 4000);
    rig.keep();
    for damage in [false, true] {
        let again = rig.killed_with(T + 4000, settings(), |root| {
            if damage {
                std::fs::remove_file(root.join("timerwheel")).unwrap();
            }
        });
        assert_eq!(again.restored.why.is_empty(), !damage);
        again.deliver(T + HOUR);
        assert_eq!(again.got(), ["early", "next"]);
    }
}

#[test]
fn damaged_files_are_made_again() {
    let write = |path: PathBuf, bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    let cut = |path: PathBuf, len: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    let first = |root: &Path| root.join("timerlog/00000000000000000000");
    let last = |root: &Path| root.join("timerlog/00000000000000004096");
    type Damage<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>, bool);
    let old_wheel = std::cell::RefCell::new(Vec::new());
    let damages: Vec<Damage<'_>> = vec![
        ("nothing", Box::new(|_| ()), false),
        (
            "wheel missing",
            Box::new(|r| std::fs::remove_file(r.join("timerwheel")).unwrap()),
            true,
        ),
        (
            "wheel blank",
            Box::new(|r| write(r.join("timerwheel"), &vec![0; timer::WHEEL_SIZE])),
            true,
        ),
        (
            "wheel empty",
            Box::new(|r| write(r.join("timerwheel"), b"")),
            true,
        ),
        (
            "wheel cut",
            Box::new(|r| cut(r.join("timerwheel"), 1_000_000)),
            true,
        ),
        (
            "wheel longer",
            Box::new(|r| cut(r.join("timerwheel"), 50_000_000)),
            true,
        ),
        (
            "wheel noise",
            Box::new(|r| write(r.join("timerwheel"), &vec![7; timer::WHEEL_SIZE])),
            true,
        ),
        (
            "wheel old",
            Box::new(|r| write(r.join("timerwheel"), &old_wheel.borrow())),
            true,
        ),
        (
            "log missing",
            Box::new(|r| std::fs::remove_dir_all(r.join("timerlog")).unwrap()),
            true,
        ),
        ("log cut", Box::new(|r| cut(last(r), 100)), true),
        ("log blank", Box::new(|r| write(last(r), &[0; 4096])), true),
        ("log longer", Box::new(|r| cut(first(r), 5000)), true),
        (
            "first blank",
            Box::new(|r| write(first(r), &[0; 4096])),
            true,
        ),
        (
            "first missing",
            Box::new(|r| std::fs::remove_file(first(r)).unwrap()),
            true,
        ),
        (
            "check missing",
            Box::new(|r| std::fs::remove_file(r.join("config/timercheck")).unwrap()),
            false,
        ),
        (
            "check blank",
            Box::new(|r| write(r.join("config/timercheck"), &[0; 4096])),
            false,
        ),
        (
            "check cut",
            Box::new(|r| cut(r.join("config/timercheck"), 9)),
            false,
        ),
        (
            "all missing",
            Box::new(|r| {
                for name in ["timerwheel", "config/timercheck"] {
                    std::fs::remove_file(r.join(name)).unwrap();
                }
                std::fs::remove_dir_all(r.join("timerlog")).unwrap();
            }),
            true,
        ),
    ];
    let rig = Rig::new();
    for n in 0..50 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    *old_wheel.borrow_mut() = std::fs::read(rig.config.root.join("timerwheel")).unwrap();
    for n in 50..100 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.park(T + 100_000, "gone");
    rig.recall(T + 100_000, "gone");
    rig.deliver(T + 20_000);
    rig.keep();
    rig.deliver(T + 40_000);
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    for (name, damage, is_made_again) in &damages {
        let again = rig.killed_with(T + 40_000, settings(), |root| damage(root));
        assert_eq!(
            again.restored.why.is_empty(),
            !is_made_again,
            "{name}: {:?}",
            again.restored
        );
        again.deliver(T + HOUR);
        assert_eq!(again.got(), expected, "{name}");
        again.keep();
        let last = again.killed(T + HOUR);
        assert_eq!(
            (last.restored.why.as_str(), last.deliver(T + HOUR)),
            ("", 0),
            "{name}"
        );
    }
}

#[test]
fn a_check_point_that_says_too_much_loses_nothing() {
    let rig = Rig::new();
    for n in 0..200 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.deliver(T + 20_000);
    rig.keep();
    let expected: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    let field = |root: &Path, at: usize, value: i64| {
        let path = root.join("config/timercheck");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_be_bytes());
        std::fs::write(path, bytes).unwrap();
    };
    let far = T + 1000 * HOUR;
    let wheel = |root: &Path| std::fs::remove_file(root.join("timerwheel")).unwrap();
    let log = |root: &Path| std::fs::remove_dir_all(root.join("timerlog")).unwrap();
    let empty_log = |root: &Path| {
        log(root);
        std::fs::create_dir(root.join("timerlog")).unwrap();
        let first = root.join("timerlog/00000000000000000000");
        std::fs::write(first, [0; 4096]).unwrap();
        field(root, 1, 0);
    };
    type Damage<'a> = Box<dyn Fn(&Path) + 'a>;
    let damages: [Damage<'_>; 7] = [
        Box::new(|r| field(r, 0, far)),
        Box::new(|r| field(r, 0, i64::MAX)),
        Box::new(|r| (field(r, 0, far), wheel(r)).1),
        Box::new(|r| (field(r, 0, far), log(r)).1),
        Box::new(|r| field(r, 1, i64::MAX)),
        Box::new(|r| field(r, 2, i64::MAX)),
        Box::new(|r| (field(r, 2, i64::MAX), empty_log(r)).1),
    ];
    for (i, damage) in damages.iter().enumerate() {
        let again = rig.killed_with(T + 20_000, settings(), |root| damage(root));
        assert_eq!(again.deliver(T + HOUR), 180, "damage {i}");
        assert_eq!(again.got(), expected, "damage {i}");
    }
}

#[test]
fn another_precision_makes_all_again() {
    let rig = Rig::new();
    for n in 0..50 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.deliver(T + 20_000);
    rig.keep();
    rig.deliver(T + 25_000);
    for precision in [100, 5000] {
        let other = Settings {
            precision,
            ..settings()
        };
        let again = rig.killed_with(T + 25_000, other, |_| ());
        again.deliver(T + HOUR);
        let expected: Vec<_> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(again.got(), expected, "{precision}");
    }
}

#[test]
fn a_power_cut_may_take_the_end_of_the_commit_log() {
    let rig = Rig::new();
    for n in 0..10 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    let end = rig.store().log().max_offset();
    for n in 10..20 {
        rig.park(T + 1000 * (n - 10), &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    let again = rig.killed_with(T, settings(), |root| {
        let path = root.join("commitlog/00000000000000000000");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[end as usize..].fill(0);
        std::fs::write(path, bytes).unwrap();
        std::fs::remove_dir_all(root.join("consumequeue")).unwrap();
    });
    assert_eq!(again.store().log().max_offset(), end);
    again.park(T + 3000, "new");
    again.deliver(T + HOUR);
    let expected = ["0", "1", "2", "3", "new", "4", "5", "6", "7", "8", "9"];
    assert_eq!(again.got(), expected);
    let kept = rig.killed(T);
    kept.deliver(T + HOUR);
    assert_eq!(kept.got().len(), 20);
}
