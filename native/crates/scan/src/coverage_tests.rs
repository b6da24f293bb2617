//! Coverage of made stores, of which parts are taken away.

use super::*;
use crate::made::{Put, Way, make};
use crate::queues::dispatched;
use crate::queues::tests::{puts, way};
use proptest::prelude::*;

proptest! {
    #[test]
    fn whole_stores_are_covered(puts in puts(), way in way(), part in 0.0..1.0f64) {
        let made = make(&puts, &way);
        let end = dispatched(&made.store, made.log_end, made.log_end).unwrap();
        let first = made.store.first();
        let end = end.max(first);
        let at = (made.rows.len() as f64 * part) as usize;
        let from = made.rows.get(at).map_or(first, |row| row.phys).min(end);
        for range in [(first, end), (from, end)] {
            prop_assert_eq!(why_not(&made.store, range).unwrap(), None);
        }
        // What is not dispatched yet has no entry.
        if end < made.log_end {
            prop_assert!(why_not(&made.store, (first, made.log_end)).unwrap().is_some());
        }
    }

    #[test]
    fn a_queue_that_is_gone_is_noticed(puts in puts(), way in way(), topic in "A|B", id in 0..3i32) {
        let made = make(&puts, &way);
        let end = dispatched(&made.store, made.log_end, made.log_end).unwrap();
        for kind in ["consumequeue", "batchconsumequeue"] {
            let folder = made.dir.path().join(kind).join(&topic).join(id.to_string());
            let _ = std::fs::remove_dir_all(folder);
        }
        let lacks = made.rows.iter().any(|row| {
            row.topic == topic && row.queue == id && row.phys < end
        });
        let why = why_not(&made.store, (made.store.first(), end.max(made.store.first()))).unwrap();
        prop_assert_eq!(why.is_some(), lacks);
    }
}

#[test]
fn blank_places_and_damage_are_told_apart() {
    let made = make(&vec![Put::new("T", 0); 20], &Way::default());
    let whole = (0, made.log_end);
    assert_eq!(why_not(&made.store, whole).unwrap(), None);
    let path = made
        .dir
        .path()
        .join("consumequeue/T/0")
        .join("0".repeat(20));
    let good = std::fs::read(&path).unwrap();
    let mut bytes = good.clone();
    pyrmq_format::cq_entry::CqEntry::PRE_BLANK.write(&mut bytes[40..60]);
    std::fs::write(&path, &bytes).unwrap();
    let why = why_not(&made.store, whole).unwrap().unwrap();
    assert!(
        why.starts_with("the log has records without queue entries"),
        "{why}"
    );
    bytes.copy_within(0..20, 40);
    std::fs::write(&path, &bytes).unwrap();
    let why = why_not(&made.store, whole).unwrap().unwrap();
    assert_eq!(why, "queue T-0 is damaged");
    std::fs::write(&path, &good).unwrap();
    std::fs::remove_file(path.with_file_name("00000000000000000160")).unwrap();
    let why = why_not(&made.store, whole).unwrap().unwrap();
    assert_eq!(why, "a file of queue T-0 is missing");
}
