//! Timers and pops as Apache RocketMQ 5.5.0 has written them: read, and written again with the same
//! bytes. The file is made by tests/system/interop/pop/golden.py, which says what its lines are.

use crate::pop::{Ack, CheckPoint, Kind};
use crate::properties;
use crate::timer::{self, LogEntry, Slot, TimerCheck, Unit};
use std::collections::BTreeMap;

const FILE: &str = include_str!("../../../../tests/store/data/timers-5.5.0.txt");

fn lines(word: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = FILE.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let word = word.to_owned();
    lines.filter(move |words| words[0] == word)
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

fn slots() -> BTreeMap<usize, Slot> {
    let read = |words: Vec<&str>| {
        let b: [u8; Slot::SIZE] = bytes(words[2]).try_into().unwrap();
        let slot = Slot::read(&b);
        assert_eq!(slot.encode(), b);
        (words[1].parse().unwrap(), slot)
    };
    lines("slot").map(read).collect()
}

fn units() -> BTreeMap<i64, Unit> {
    let read = |words: Vec<&str>| {
        let b = bytes(words[2]);
        let LogEntry::Unit(unit) = Unit::read(&b) else {
            panic!("no unit: {words:?}")
        };
        assert_eq!(unit.encode()[..], b);
        (words[1].parse().unwrap(), unit)
    };
    lines("unit").map(read).collect()
}

/// Also of one that rolls.
fn is_delete(unit: &Unit) -> bool {
    unit.magic & timer::MAGIC_DELETE != 0
}

#[test]
fn slots_are_where_their_time_says() {
    let slots = slots();
    assert!(slots.len() > 4);
    for (index, slot) in slots {
        assert_eq!(timer::slot_index(slot.time), index);
    }
}

#[test]
fn slots_lead_to_all_units() {
    let (units, mut seen) = (units(), 0);
    for slot in slots().values() {
        let (mut at, mut count) = (slot.last, 0);
        loop {
            let unit = &units[&at];
            assert_eq!(unit.time_ms(), slot.time * 1000);
            count += if is_delete(unit) { -1 } else { 1 };
            seen += 1;
            if unit.previous == timer::NOWHERE {
                break;
            }
            at = unit.previous;
        }
        assert_eq!((at, count), (slot.first, slot.count));
    }
    assert_eq!(seen, units.len());
}

#[test]
fn units_of_each_kind_are_there() {
    let units = units();
    let count = |is: fn(&Unit) -> bool| units.values().filter(|unit| is(unit)).count();
    assert_eq!((count(Unit::is_roll), count(is_delete)), (3, 1));
    // One character, whose hash is its code.
    assert_eq!(units[&0].topic_hash, i32::from(b'T'));
}

#[test]
fn the_check_point_covers_all() {
    let b = bytes(lines("check").next().unwrap()[1]);
    let check = TimerCheck::read(&b).unwrap();
    assert_eq!(check.encode()[..], b);
    let count = units().len() as i64;
    assert_eq!(check.log_flushed, count * Unit::SIZE as i64);
    assert_eq!(
        (check.queue_offset, check.master_queue_offset),
        (count, count)
    );
}

/// Where a record goes, when, and what it says of itself.
fn check_props(raw: &[u8], made: &[u8], due: i64) {
    let value = |text, name: &[u8]| properties::find(text, name).map(<[u8]>::to_vec);
    for name in [&b"TAGS"[..], b"UNIQ_KEY"] {
        assert_eq!(value(raw, name), value(made, name));
        assert!(value(raw, name).is_some());
    }
    let number = |name| value(raw, name).map(|text| String::from_utf8(text).unwrap());
    assert_eq!(number(timer::DELIVER_MS), Some(due.to_string()));
    let out = timer::out_time(due, 1000);
    assert_eq!(number(timer::OUT_MS), Some(out.to_string()));
}

#[test]
fn records_of_pops_are_written_the_same() {
    let (mut kinds, mut suspended) = (Vec::new(), 0);
    let mut times = BTreeMap::new();
    for words in lines("record") {
        let (body, raw) = (bytes(words[2]), bytes(words[3]));
        let kind = Kind::of_tag(words[1].as_bytes()).unwrap();
        let (mut again, mut props) = (Vec::new(), Vec::new());
        let due = if words[1] == "ck" {
            let mut diffs = Vec::new();
            let ck = CheckPoint::read(&body, &mut diffs).unwrap();
            ck.push_body(&mut again);
            ck.push_props(&mut props);
            suspended += ck.suspend as i32;
            times.insert(ck.popped.pop_time, ck.revive_time());
            ck.due()
        } else {
            let mut offsets = Vec::new();
            let ack = Ack::read(&body, &mut offsets).unwrap();
            ack.push_body(&mut again);
            ack.push_props(&mut props);
            assert_eq!(ack.kind().tag(), kind.tag());
            times[&ack.popped.pop_time]
        };
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        assert_eq!(text(&again), text(&body));
        check_props(&raw, &props, due);
        kinds.push(words[1]);
    }
    assert_eq!(kinds, ["ck", "ack", "bAck", "ck", "ck", "ack", "ck", "ack"]);
    assert_eq!(suspended, 1);
}
