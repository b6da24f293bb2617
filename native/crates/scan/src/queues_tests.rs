//! Queues of made stores, compared with what was put into them.

use super::*;
use crate::made::{Made, Put, Row, Way, make};
use proptest::prelude::*;

pub fn puts() -> impl Strategy<Value = Vec<Put>> {
    let topic = prop::sample::select(vec!["A", "B", "SCHEDULE_TOPIC_XXXX"]);
    let tag = prop::sample::select(vec![None, Some("a"), Some("b"), Some("Aa"), Some("BB")]);
    let key = prop::sample::select(vec![None, Some("k"), Some("k x"), Some("y"), Some(" ")]);
    let put = (topic, 0..3i32, tag, key, 0usize..200);
    prop::collection::vec(put, 0..120).prop_map(|puts| {
        let puts = puts.into_iter().enumerate();
        puts.map(|(number, (topic, queue, tag, key, body))| Put {
            key,
            tag,
            body,
            time: 1000 + 10 * number as i64,
            // One of the queues has inner batches.
            inner: if (topic, queue) == ("B", 2) {
                1 + body % 4
            } else {
                0
            },
            ..Put::new(topic, queue)
        })
        .collect()
    })
}

pub fn way() -> impl Strategy<Value = Way> {
    let first = prop::sample::select(vec![0u64, 0, 3, 16, 21]);
    let numbers = (0usize..4, 0usize..4, first, any::<bool>());
    numbers.prop_map(|(undispatched, deleted, first_offset, index)| Way {
        index,
        undispatched,
        deleted,
        first_offset,
    })
}

/// Those that queue entries name, of one queue.
fn rows_of<'a>(made: &'a Made, queue: &Queue, dispatched: u64) -> Vec<&'a Row> {
    let rows = made.rows.iter();
    rows.filter(|row| row.topic == queue.topic && row.queue == queue.id && row.phys < dispatched)
        .collect()
}

proptest! {
    #[test]
    fn reaches_are_those_of_the_rows(
        puts in puts(), way in way(), cut in 0.0..1.2f64, start in 0.0..1.2f64,
    ) {
        let made = make(&puts, &way);
        let log_end = (made.log_end as f64 * cut) as u64;
        let log_start = ((made.log_end as f64 * start) as u64).max(made.store.first());
        let dispatched = dispatched(&made.store, u64::MAX, u64::MAX).unwrap();
        let all: Vec<Queue> = list_queues(&made.store, |_| Ok(true)).unwrap();
        for queue in &all {
            let rows = rows_of(&made, queue, dispatched);
            let reached = reach(queue, log_start, log_end).unwrap();
            let inside: Vec<&&Row> =
                rows.iter().filter(|row| log_start <= row.phys && row.phys < log_end).collect();
            let records: std::collections::BTreeSet<u64> =
                inside.iter().map(|row| row.phys).collect();
            prop_assert_eq!(reached.end - reached.start, records.len() as u64);
            if let (Some(first), Some(last)) = (inside.first(), inside.last()) {
                prop_assert_eq!(
                    (reached.min_offset, reached.max_offset), (first.offset, last.offset + 1)
                );
                prop_assert!(queue.is_whole(reached.start, reached.end));
                let ends = log_end_of(queue, log_end).unwrap();
                prop_assert_eq!(ends, last.phys + last.size);
            }
            // Any offset: the first place that has it or a later one.
            for offset in [-1, 0, 2, 5, 22, 30, i64::MAX] {
                let place = place_of(&reached, offset).unwrap();
                let phys = inside.iter().find(|row| row.offset >= offset).map(|row| row.phys);
                let found = phys_at(&reached, place, log_end).unwrap();
                prop_assert_eq!(found, phys.unwrap_or(log_end));
                let behind = place_behind(&reached, offset).unwrap();
                for place in reached.start..reached.end {
                    let entry = entry_at(queue, place).unwrap().unwrap();
                    prop_assert_eq!(place >= behind, entry.offset >= offset);
                }
            }
        }
    }
}

#[test]
fn names_of_queue_folders() {
    assert_eq!(queue_id("0"), Some(0));
    assert_eq!(queue_id("2147483647"), Some(i32::MAX));
    for name in ["", "00", "+1", "-1", "2147483648", "a", "99999999999", "٣"] {
        assert_eq!(queue_id(name), None, "{name}");
    }
}

#[test]
fn light_queues_and_foreign_folders_are_left_out() {
    let made = make(&[Put::new("T", 0)], &Way::default());
    let folder = made.dir.path().join("consumequeue");
    for other in ["%LMQ%x/0", "T/x", "T/00"] {
        let folder = folder.join(other);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("0".repeat(20)), [1; 20]).unwrap();
    }
    let found = list_queues(&made.store, |_| Ok(true)).unwrap();
    assert_eq!(found.iter().map(Queue::shown).collect::<Vec<_>>(), ["T-0"]);
}

#[test]
fn a_file_that_is_cut_gives_fewer_entries() {
    let puts = vec![Put::new("T", 0); 20];
    let made = make(&puts, &Way::default());
    let queue = list_queues(&made.store, |_| Ok(true)).unwrap().remove(0);
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&queue.files[1].2);
    file.unwrap().set_len(30).unwrap();
    let mut seen = Vec::new();
    queue
        .read(0, 20, |place, entries| {
            seen.push((place, entries.count()));
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(seen, [(0, 8), (8, 1), (16, 4)]);
    assert_eq!(entry_at(&queue, 9).unwrap(), None);
    assert!(queue.is_whole(0, 20));
    std::fs::remove_file(&queue.files[1].2).unwrap();
    let error = queue
        .read(0, 20, |_, _| Ok(ControlFlow::Continue(())))
        .unwrap_err();
    assert_eq!(error.path.as_deref(), Some(&*queue.files[1].2));
}
