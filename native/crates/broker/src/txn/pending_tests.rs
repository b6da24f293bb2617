use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

fn waits(table: &mut Table, phys: u64, born: i64, immunity: i32, group: &[u8]) -> Pending {
    Pending {
        phys,
        born,
        since: born,
        key: 0,
        immunity,
        checks: 0,
        is_copy: false,
        origin: table.origin(group, b"T"),
    }
}

type Found = (Vec<(i64, Pending)>, i64);

fn offsets((found, _): Found) -> Vec<i64> {
    found.into_iter().map(|(offset, _)| offset).collect()
}

fn due_at(now: i64) -> DueRule {
    DueRule {
        now,
        timeout: 6000,
        check_max: u16::MAX,
        reserved: i64::MAX,
    }
}

#[test]
fn due_by_age_immunity_and_clock() {
    let mut table = Table::default();
    for (offset, born, immunity) in [
        (0, 1000, -1),
        (1, 2000, -1),
        (2, 1000, 10),
        (3, 1000, 0),
        (4, 50_000, -1),
        (5, 1000, i32::MAX),
    ] {
        let pending = waits(&mut table, 0, born, immunity, b"G");
        table.insert(offset, pending);
    }
    let at = |now| offsets(table.due(&due_at(now), 0..i64::MAX, 100, usize::MAX));
    assert_eq!(at(1000), [1, 4], "those from the future: nobody knows");
    assert_eq!(at(2000), [3, 4]);
    assert_eq!(at(7000), [3, 4], "the age has to be greater");
    assert_eq!(at(7001), [0, 3, 4]);
    assert_eq!(at(11_001), [0, 1, 2, 3, 4]);
    assert_eq!(at(50_000), [0, 1, 2, 3]);
    assert_eq!(at(1 << 50), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn due_in_chunks() {
    let mut table = Table::default();
    for offset in 0..10 {
        let pending = waits(&mut table, 0, 0, -1, b"G");
        table.insert(offset * 2, pending);
    }
    let when = due_at(10_000);
    assert_eq!(
        offsets(table.due(&when, 0..i64::MAX, 3, usize::MAX)),
        [0, 2, 4]
    );
    assert_eq!(
        offsets(table.due(&when, 5..i64::MAX, 3, usize::MAX)),
        [6, 8, 10]
    );
    assert_eq!(offsets(table.due(&when, 5..10, 3, usize::MAX)), [6, 8]);
    assert_eq!(offsets(table.due(&when, 10..10, 3, usize::MAX)), [0i64; 0]);
    assert_eq!(
        offsets(table.due(&when, Range { start: 50, end: 10 }, 3, usize::MAX)),
        [0i64; 0],
        "behind the end"
    );
    assert_eq!(
        offsets(table.due(&when, i64::MIN..10, 0, usize::MAX)),
        [0i64; 0]
    );
}

/// However many are not due, one call takes a bounded time and says where to continue.
#[test]
fn due_among_many_that_are_not() {
    let mut table = Table::default();
    for offset in 0..100 {
        let born = if offset % 40 == 39 { 0 } else { 9_999 };
        let pending = waits(&mut table, 0, born, -1, b"G");
        table.insert(offset, pending);
    }
    let (when, until) = (due_at(10_000), 90);
    let (mut from, mut found, mut calls) = (0, Vec::new(), 0);
    while from < until {
        let (some, next) = table.due(&when, from..until, 1, 16);
        assert!(next > from && some.len() <= 1);
        found.extend(some.into_iter().map(|(offset, _)| offset));
        (from, calls) = (next, calls + 1);
    }
    assert_eq!(found, [39, 79]);
    assert!(calls >= 90 / 16, "{calls}");
}

#[test]
fn origins_are_shared_and_counted() {
    let mut table = Table::default();
    for offset in 0..6 {
        let topic: &[u8] = if offset % 2 == 0 { b"A" } else { b"B" };
        let pending = Pending {
            origin: table.origin(b"G", topic),
            ..waits(&mut table, 0, 0, -1, b"G")
        };
        table.insert(offset, pending);
    }
    let other = Pending {
        origin: table.origin(b"H", b"A"),
        ..waits(&mut table, 0, 0, -1, b"G")
    };
    table.insert(6, other);
    assert!(Arc::ptr_eq(
        &table.get(0).unwrap().origin,
        &table.get(4).unwrap().origin
    ));
    let mut by_topic = table.by_topic();
    by_topic.sort();
    let of = |name: &[u8], n| (Box::from(name), n);
    assert_eq!(by_topic, [of(b"A", 4), of(b"B", 3), of(b"T", 0)]);
    assert!(table.remove(6).is_some());
    assert!(table.remove(6).is_none());
    assert!(table.by_topic().contains(&of(b"A", 3)));
}

/// Group names are the clients' to choose: those that nothing waits for are thrown out.
#[test]
fn origins_are_bounded_by_what_waits() {
    let mut table = Table::default();
    for n in 0..20_000 {
        let group = format!("G{n}");
        let pending = waits(&mut table, 0, 0, -1, group.as_bytes());
        table.insert(n, pending);
        if n >= 100 {
            table.remove(n - 100);
        }
        assert!(table.origins.len() <= MIN_ORIGINS);
    }
    let mut table = Table::default();
    for n in 0..5_000 {
        let group = format!("G{n}");
        let pending = waits(&mut table, 0, 0, -1, group.as_bytes());
        table.insert(n, pending);
    }
    assert_eq!(table.origins.len(), 5000, "all are used");
    for n in 0..5_000 {
        table.remove(n);
    }
    for n in 0..12_000 {
        table.origin(format!("new{n}").as_bytes(), b"T");
    }
    assert!(
        table.origins.len() <= 2 * MIN_ORIGINS,
        "{}",
        table.origins.len()
    );
}

#[test]
fn copies_come_and_go() {
    let mut table = Table::default();
    for (offset, is_copy) in [(2, false), (3, true), (5, true), (8, true)] {
        let pending = Pending {
            key: 77,
            is_copy,
            ..waits(&mut table, 0, 0, -1, b"G")
        };
        table.insert(offset, pending);
    }
    let copies = |table: &Table, key| table.copies(key).collect::<Vec<_>>();
    assert_eq!(
        copies(&table, 77),
        [8, 5, 3],
        "the first one has no need of it"
    );
    assert_eq!(copies(&table, 78), [0i64; 0]);
    table.remove(5);
    table.remove(2);
    assert_eq!(copies(&table, 77), [8, 3]);
    table.remove(3);
    table.remove(8);
    assert!(table.copies.is_empty(), "nothing is left behind");
}

#[test]
fn due_in_any_case() {
    let mut table = Table::default();
    for (offset, checks, since) in [(0, 0, 5000), (1, 3, 5000), (2, 2, 1000)] {
        let pending = Pending {
            checks,
            since,
            ..waits(&mut table, 0, 5000, 3600, b"G")
        };
        table.insert(offset, pending);
    }
    let when = DueRule {
        check_max: 3,
        reserved: 4000,
        ..due_at(5001)
    };
    assert_eq!(
        offsets(table.due(&when, 0..i64::MAX, 9, usize::MAX)),
        [1, 2],
        "asked about often enough, or long ago, whatever the immunity"
    );
    assert_eq!(table.before(2, 9), [0, 1]);
    assert_eq!(table.before(2, 1), [0]);
    assert_eq!(table.before(0, 9), [0i64; 0]);
}

#[derive(Clone, Debug)]
enum Op {
    Insert { born: i64, immunity: i32, group: u8 },
    Remove(prop::sample::Index),
    Due { now: i64, after: i64, limit: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0i64..20_000, -1i32..12, 0u8..4)
            .prop_map(|(born, immunity, group)| Op::Insert { born, immunity, group }),
        2 => any::<prop::sample::Index>().prop_map(Op::Remove),
        1 => (0i64..40_000, 0i64..60, 0usize..20)
            .prop_map(|(now, after, limit)| Op::Due { now, after, limit }),
    ]
}

proptest! {
    #[test]
    fn as_a_plain_list(ops in prop::collection::vec(op(), 1..200)) {
        let mut table = Table::default();
        let mut plain: Vec<(i64, i64, i32, u8)> = Vec::new();
        for (n, op) in ops.into_iter().enumerate() {
            let n = n as i64;
            match op {
                Op::Insert { born, immunity, group } => {
                    let pending = waits(&mut table, n as u64, born, immunity, &[b'A' + group]);
                    table.insert(n, pending);
                    plain.push((n, born, immunity, group));
                }
                Op::Remove(which) if !plain.is_empty() => {
                    let (offset, ..) = plain.remove(which.index(plain.len()));
                    prop_assert_eq!(table.remove(offset).map(|p| p.phys), Some(offset as u64));
                }
                Op::Remove(_) => prop_assert!(table.remove(n).is_none()),
                Op::Due { now, after, limit } => {
                    let is_due = |&&(offset, born, immunity, _): &&(i64, i64, i32, u8)| {
                        let limit = if immunity < 0 { 6000 } else { immunity as i64 * 1000 };
                        offset >= after && (now < born || now - born > limit)
                    };
                    let want: Vec<i64> = plain.iter().filter(is_due).take(limit).map(|p| p.0).collect();
                    prop_assert_eq!(offsets(table.due(&due_at(now), after..i64::MAX, limit, usize::MAX)), want);
                }
            }
            prop_assert_eq!(table.len(), plain.len());
            prop_assert_eq!(table.least(), plain.first().map(|p| p.0));
            prop_assert_eq!(table.oldest_born(), plain.iter().map(|p| p.1).min().unwrap_or(0));
        }
        let mut counts: HashMap<u8, u64> = HashMap::new();
        for (.., group) in &plain {
            *counts.entry(*group).or_default() += 1;
        }
        let waiting = table.origins.values();
        for origin in waiting.filter(|o| o.waiting.load(Ordering::Relaxed) > 0) {
            let group = origin.group[0] - b'A';
            prop_assert_eq!(counts.remove(&group), Some(origin.waiting.load(Ordering::Relaxed)));
        }
        prop_assert!(counts.is_empty());
    }
}
