//! Files of timers that are sound, and each way in which they are not.

use super::super::timers::{self, Waiting};
use super::*;
use pyrmq_format::names::file_name;
use pyrmq_format::timer::{MAGIC_DEFAULT, MAGIC_ROLL};
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const NOW: i64 = 1_700_000_000;
/// Bytes of a file of the timer log: four units, and what ends it.
const FILE: usize = 4 * Unit::SIZE + 32;
const END: u64 = 10_000;

fn unit(previous: i64, seconds: i64, magic: i32) -> Unit {
    Unit {
        previous,
        magic,
        base: NOW * 1000 - 5000,
        delay: (seconds * 1000 + 5000) as i32,
        phys: 100,
        size: 200,
        topic_hash: 7,
    }
}

/// A store's files: three timers in two slots, one deleted, one slot that is over, in two log files.
struct Files {
    dir: TempDir,
    units: Vec<Unit>,
    slots: Vec<Slot>,
    check: TimerCheck,
}

impl Files {
    fn new() -> Self {
        let slot = |seconds: i64, first: i64, last: i64, count: i32| Slot {
            time: NOW + seconds,
            first,
            last,
            count,
            magic: 0,
        };
        let behind = FILE as i64;
        Files {
            dir: tempfile::tempdir().unwrap(),
            units: vec![
                unit(NOWHERE, -60, MAGIC_DEFAULT),
                unit(NOWHERE, 10, MAGIC_DEFAULT),
                unit(NOWHERE, 70, MAGIC_DEFAULT | MAGIC_ROLL),
                unit(52, 10, MAGIC_DEFAULT),
                unit(156, 10, MAGIC_DEFAULT | MAGIC_DELETE),
            ],
            slots: vec![
                slot(-60, 0, 0, 1),
                slot(10, 52, behind, 1),
                slot(70, 104, 104, 1),
            ],
            check: TimerCheck {
                read_ms: NOW * 1000,
                log_flushed: behind + 52,
                queue_offset: 5,
                ..TimerCheck::default()
            },
        }
    }

    fn write(&self) {
        let root = self.dir.path();
        std::fs::create_dir_all(root.join(LOG)).unwrap();
        std::fs::create_dir_all(root.join("config")).unwrap();
        for (n, units) in self.units.chunks(4).enumerate() {
            let mut bytes: Vec<u8> = units.iter().flat_map(Unit::encode).collect();
            if units.len() == 4 {
                bytes.extend(Unit::end_of_file(FILE - bytes.len()));
            }
            bytes.resize(FILE, 0);
            let name = file_name((n * FILE) as u64);
            std::fs::write(root.join(LOG).join(name), bytes).unwrap();
        }
        let wheel = std::fs::File::create(root.join(WHEEL)).unwrap();
        wheel.set_len(WHEEL_SIZE as u64).unwrap();
        for slot in &self.slots {
            let at = (slot_index(slot.time) * Slot::SIZE) as u64;
            wheel.write_all_at(&slot.encode(), at).unwrap();
        }
        let mut bytes = self.check.encode().to_vec();
        bytes.resize(TimerCheck::FILE_SIZE, 0);
        std::fs::write(root.join(CHECK), bytes).unwrap();
    }

    /// (severity, path, text) of each finding, and what was counted.
    fn verify(&self, clean: bool) -> (Vec<(Severity, String, String)>, TimerCounts) {
        let around = Around {
            end_phys: END,
            clean,
            queue_end: Some(5),
        };
        let mut out = Findings::default();
        let mut counts = TimerCounts::default();
        if let Some(mut run) = TimerCheckRun::new(self.dir.path(), &around, &mut out) {
            while !run.is_done() {
                run.step(1000, &mut out);
            }
            counts = run.counts;
        }
        let found = out.take().into_iter();
        (
            found.map(|f| (f.severity, f.path, f.text)).collect(),
            counts,
        )
    }

    /// The one finding of files that were changed.
    fn only(&self, clean: bool) -> (Severity, String, String) {
        self.write();
        let (mut found, _) = self.verify(clean);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }
}

#[test]
fn sound_files_have_no_findings() {
    let files = Files::new();
    files.write();
    let (found, counts) = files.verify(true);
    assert_eq!(found, []);
    let expected = TimerCounts {
        units: 5,
        waiting: 4,
        slots: 2,
    };
    assert_eq!(counts, expected);
    let facts = timers::inspect(files.dir.path(), Some(5)).unwrap();
    let expected = Waiting {
        messages: 2,
        slots: 2,
        first_ms: (NOW + 10) * 1000,
        last_ms: (NOW + 70) * 1000,
        precision: Some(1000),
    };
    assert_eq!(facts.waiting, Some(expected));
    assert_eq!((facts.log_min, facts.log_end), (0, FILE as u64 + 52));
    assert_eq!((facts.check, facts.log_files), (Some(files.check), 2));
    assert!(facts.faults.is_empty());
}

#[test]
fn a_store_without_timers_has_nothing_to_say() {
    let files = Files::new();
    assert_eq!(files.verify(true), (vec![], TimerCounts::default()));
    assert!(timers::inspect(files.dir.path(), None).is_none());
}

type Change = fn(&mut Files);

#[test]
fn what_contradicts_is_damage() {
    let cases: [(Change, &str, &str); 10] = [
        (
            |f| f.units[2].phys = END as i64,
            "timerlog/",
            "behind the end of the log",
        ),
        (|f| f.slots[2].last = 53, WHEEL, "no unit is at 53"),
        (|f| f.slots[2].last = 1 << 40, WHEEL, "no unit is at"),
        (|f| f.slots[2].last = -5, WHEEL, "no unit is at -5"),
        (|f| f.slots[2].last = 156, WHEEL, "of another time"),
        (
            |f| f.slots[1].first = 0,
            WHEEL,
            "its chain begins at 52, its first unit is at 0",
        ),
        (
            |f| f.units[3].previous = 104,
            WHEEL,
            "the unit at 104 is of another time",
        ),
        (|f| f.check.log_flushed += 1, CHECK, "and ends at"),
        (|f| f.check.queue_offset = 6, CHECK, "the queue ends at 5"),
        (|f| f.check.queue_offset = -1, CHECK, "field 2 is negative"),
    ];
    for (change, path, text) in cases {
        let mut files = Files::new();
        change(&mut files);
        let found = files.only(true);
        assert_eq!(found.0, Severity::Damage, "{found:?}");
        assert!(
            found.1.starts_with(path) && found.2.contains(text),
            "{found:?}"
        );
    }
}

#[test]
fn a_unit_without_a_message_ends_its_file() {
    let changes: [Change; 2] = [|f| f.units[2].size = 0, |f| f.units[2].phys = -1];
    for change in changes {
        let mut files = Files::new();
        change(&mut files);
        files.write();
        let (found, _) = files.verify(true);
        let texts: Vec<&str> = found.iter().map(|f| f.2.as_str()).collect();
        assert!(
            texts[0].contains("no unit, and more files follow"),
            "{texts:?}"
        );
        assert!(texts[1].contains("no unit is at 104"), "{texts:?}");
    }
}

#[test]
fn a_unit_that_leads_forward_is_damage() {
    let mut files = Files::new();
    files.units[3].previous = 156;
    files.write();
    let (found, _) = files.verify(true);
    let texts: Vec<&str> = found.iter().map(|f| f.2.as_str()).collect();
    assert!(
        texts.iter().any(|t| t.contains("the unit before it")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|t| t.contains("does not go back")),
        "{texts:?}"
    );
}

#[test]
fn a_slot_in_the_place_of_another_is_damage() {
    let files = Files::new();
    files.write();
    let wheel = std::fs::File::options()
        .write(true)
        .open(files.dir.path().join(WHEEL))
        .unwrap();
    wheel.write_all_at(&files.slots[1].encode(), 64).unwrap();
    let (found, counts) = files.verify(true);
    assert!(
        found[0].2.contains("belongs into another slot"),
        "{found:?}"
    );
    assert_eq!((found.len(), counts.slots), (1, 2));
}

#[test]
fn a_count_that_is_wrong_is_a_warning() {
    let mut files = Files::new();
    files.slots[1].count = 9;
    let found = files.only(true);
    assert_eq!(found.0, Severity::Warning);
    assert!(
        found.2.contains("its count is 9, its chain has 1"),
        "{found:?}"
    );
}

/// The wheel may be on disk before the log is: after a kill it is no fault.
#[test]
fn a_wheel_that_is_ahead_is_expected_after_a_kill() {
    let mut files = Files::new();
    files.slots[2].last = FILE as i64 + 52;
    assert_eq!(files.only(false).0, Severity::Note);
    assert_eq!(files.only(true).0, Severity::Damage);
}

#[test]
fn files_that_are_cut_or_missing() {
    let files = Files::new();
    let root = files.dir.path();
    let cut = |path: &str, len: u64| {
        files.write();
        let file = std::fs::File::options()
            .write(true)
            .open(root.join(path))
            .unwrap();
        file.set_len(len).unwrap();
        files.verify(true).0
    };
    let found = cut(WHEEL, 100);
    assert!(
        found[0].2.contains("100 bytes, 38707200 were expected"),
        "{found:?}"
    );
    let second = format!("{LOG}/{}", file_name(FILE as u64));
    let found = cut(&second, 60);
    assert!(
        found[0].2.contains("60 bytes, 240 were expected"),
        "{found:?}"
    );
    let found = cut(CHECK, 31);
    assert!(found[0].2.contains("31 bytes are too short"), "{found:?}");
    let facts = timers::inspect(root, None).unwrap();
    assert_eq!(facts.faults, ["config/timercheck has only 31 bytes"]);

    files.write();
    std::fs::remove_file(root.join(WHEEL)).unwrap();
    let (found, _) = files.verify(true);
    assert_eq!((found.len(), found[0].0), (1, Severity::Warning));
    assert!(found[0].2.starts_with("there is none"), "{found:?}");

    files.write();
    std::fs::remove_file(root.join(LOG).join(file_name(0))).unwrap();
    std::fs::write(root.join(LOG).join("notes"), b"mine").unwrap();
    let (found, _) = files.verify(true);
    assert!(found.iter().any(|f| f.1 == "timerlog/notes"), "{found:?}");
    assert!(
        found
            .iter()
            .any(|f| f.0 == Severity::Damage && f.1 == WHEEL),
        "{found:?}"
    );

    std::fs::remove_dir_all(root.join(LOG)).unwrap();
    std::fs::remove_file(root.join(WHEEL)).unwrap();
    let (found, _) = files.verify(true);
    assert!(
        found[0].2.contains("config/timercheck speaks of it"),
        "{found:?}"
    );
}

#[test]
fn noise_ends() {
    let files = Files::new();
    for seed in 0..20_u8 {
        files.write();
        let noise = |len: usize| -> Vec<u8> {
            (0..len)
                .map(|i| {
                    (i as u8)
                        .wrapping_mul(31)
                        .wrapping_add(seed)
                        .rotate_left(i as u32 % 8)
                })
                .collect()
        };
        let root = files.dir.path();
        std::fs::write(root.join(LOG).join(file_name(0)), noise(FILE)).unwrap();
        std::fs::write(root.join(CHECK), noise(100)).unwrap();
        let wheel = std::fs::File::options()
            .write(true)
            .open(root.join(WHEEL))
            .unwrap();
        wheel
            .write_all_at(&noise(10_000), 320 * u64::from(seed))
            .unwrap();
        let (found, _) = files.verify(seed % 2 == 0);
        assert!(!found.is_empty());
        timers::inspect(root, None).unwrap();
    }
}
