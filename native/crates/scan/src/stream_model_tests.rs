//! Streams from any start over a store that grows, compared with its rows.

use super::*;
use proptest::prelude::*;

/// Where the test's query starts.
#[derive(Clone, Debug)]
enum From {
    Earliest,
    Latest,
    Time(i64),
    Queues(Vec<(&'static str, i32, i64)>),
}

fn any_put() -> impl Strategy<Value = Put> {
    let topic = prop_oneof![Just("A"), Just("B"), Just("C")];
    let inner = prop_oneof![8 => Just(0usize), 1 => 1usize..5];
    (topic, 0..3, 0usize..400, inner).prop_map(|(topic, queue, body, inner)| Put {
        body: if inner > 0 { body % 50 } else { body },
        // Queues are either of inner batches or not.
        inner: if topic == "C" { inner.max(1) } else { 0 },
        ..Put::new(topic, queue)
    })
}

fn any_start() -> impl Strategy<Value = From> {
    let queue = (prop_oneof![Just("A"), Just("B")], 0..3, -2i64..25);
    prop_oneof![
        Just(From::Earliest),
        Just(From::Latest),
        (900i64..1700).prop_map(From::Time),
        prop::collection::vec(queue, 1..6).prop_map(From::Queues),
    ]
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    let rows = prop::option::of(1u64..40);
    let bytes = prop::option::of(1u64..5000);
    (rows, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_stream_over_a_growing_store_has_each_message_once(
        mut all in prop::collection::vec(any_put(), 2..60),
        first in 1usize..60,
        mut start in any_start(),
        bounds in any_bounds(),
        restarts in any::<bool>(),
        log_only in any::<bool>(),
        (undispatched, deleted) in (0usize..4, 0usize..3),
    ) {
        for (number, put) in all.iter_mut().enumerate() {
            put.time = 1000 + number as i64 * 10;
        }
        let first = first.min(all.len());
        let way = Way { undispatched, deleted, ..Way::default() };
        let early = make(&all[..first], &way);
        let late = make(&all, &Way { undispatched, ..Way::default() });
        for gone in 0..early.store.first() as usize / LOG_FILE {
            std::fs::remove_file(segment(&late, gone)).unwrap();
        }
        let root = match log_only {
            true => early.dir.path().join("commitlog"),
            false => early.dir.path().to_owned(),
        };
        let high = |topic: &str, queue: i32| {
            let own = early.rows.iter().filter(|row| row.topic == topic && row.queue == queue);
            own.map(|row| row.offset + 1).max()
        };
        if let From::Queues(queues) = &mut start {
            queues.sort();
            queues.dedup_by_key(|queue| (queue.0, queue.1));
            // Those behind the end are an error, which is not what is tested here; a queue without
            // an entry counts as empty.
            queues.retain(|&(topic, queue, offset)| {
                let dispatched = first.saturating_sub(undispatched);
                let whole = log_only || all[..dispatched].iter().any(|p| (p.topic, p.queue) == (topic, queue));
                let skipped = all[dispatched..first].iter().any(|p| (p.topic, p.queue) == (topic, queue));
                whole && (log_only || !skipped) && high(topic, queue).is_some_and(|high| offset <= high)
            });
            prop_assume!(!queues.is_empty());
        }
        let mut selection = Selection { timestamp_strategy: "latest".to_owned(), ..Selection::default() };
        match &start {
            From::Earliest => {}
            From::Latest => selection.starting_offsets = Offsets::Latest,
            From::Time(time) => selection.start_time = Some(*time),
            From::Queues(queues) => selection.starting_offsets = from(queues),
        }
        let stream = || {
            let mut request = request(&root, selection.clone());
            request.fail_on_data_loss = false;
            request.split_bytes = 1024;
            opened(request).unwrap()
        };
        let mut planner = stream();
        let mut at = kept(&planner.initial(&Notes::default()).unwrap());
        let is_new = |row: &Row| match &start {
            From::Earliest => row.phys >= early.store.first(),
            From::Latest => row.phys >= early.log_end,
            From::Time(time) => {
                let begin = early.rows.iter().find(|row| row.time >= *time);
                row.phys >= begin.map_or(early.log_end, |row| row.phys)
            }
            From::Queues(queues) => {
                let named = queues.iter().find(|q| (q.0, q.1) == (row.topic, row.queue));
                row.phys >= early.store.first() && named.is_none_or(|&(topic, queue, offset)| match offset {
                    -1 => row.offset >= high(topic, queue).unwrap_or(0),
                    offset => row.offset >= offset,
                })
            }
        };
        let mut rows = Vec::new();
        for longer in [None, Some(&late)] {
            if let Some(longer) = longer {
                grow(&early, longer);
            }
            loop {
                if restarts {
                    planner = stream();
                }
                let (more, end) = next(&mut planner, &at, bounds);
                if let (Some(most), true) = (bounds.0, more.iter().all(|row| row.0 != "C")) {
                    prop_assert!(more.len() as u64 <= most);
                }
                rows.extend(more);
                if end == at {
                    break;
                }
                at = end;
            }
            // What was empty at first is not any more.
            if matches!(start, From::Latest) {
                rows.extend(drained(&mut planner, &mut at, bounds));
            }
        }
        let mut expected = early.rows.clone();
        expected.extend(late.rows.iter().filter(|row| row.phys >= early.log_end).cloned());
        expected.retain(is_new);
        prop_assert_eq!(rows, seen(&expected));
        prop_assert!(at.get("from").is_none(), "{}", at);
    }
}
