//! Which messages are read for an expression whose bits stand in the entries' extensions.

use super::*;
use crate::{Expression, Expressions, GetStatus, Store, StoreConfig, testing};
use pyrmq_format::filter::sql::Program;
use std::sync::Arc;

const TOPIC: &[u8] = b"Orders";
const BITS: [u32; 3] = [9, 33, 77];
static CLOCK: AtomicI64 = AtomicI64::new(1_000_000);
static ALWAYS: AtomicI64 = AtomicI64::new(i64::MAX);

struct Rig {
    store: Arc<Store>,
    program: Arc<Program>,
    born: (i64, u64),
    _dir: tempfile::TempDir,
}

impl Rig {
    /// A store that evaluates `number > 90` after its first ten messages; their numbers are 90 to 99.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        (config.index_slots, config.index_entries) = (50, 500);
        (config.commit_log_file_size, config.consume_queue_file_size) = (1 << 20, 20 * 64);
        (
            config.queue_ext,
            config.queue_ext_file_size,
            config.bitmap_len,
        ) = (true, 4096, 14);
        config.clock = || CLOCK.fetch_add(1, Ordering::Relaxed);
        let store = Store::open(config).unwrap();
        let program = Arc::new(Program::compile("number > 90").unwrap());
        let mut rig = Rig {
            store,
            program,
            born: (0, 0),
            _dir: dir,
        };
        rig.put(90..100);
        let topic = rig.store.topics().get(TOPIC).unwrap();
        let (program, bits) = (rig.program.clone(), BITS.to_vec());
        let expressions = Expressions::patient(vec![Expression { program, bits }]);
        rig.born = rig
            .store
            .set_expressions(&topic, Some(expressions), |_| ())
            .unwrap();
        rig
    }

    fn put(&self, numbers: std::ops::Range<u32>) {
        let topic = self.store.topics().topic(TOPIC).unwrap();
        for n in numbers {
            let mut guard = self.store.put().unwrap();
            let properties = format!("number\x01{n}\x02");
            testing::append(&mut guard, &topic, properties.as_bytes(), b"body").unwrap();
        }
    }

    /// How many messages a read from the start gives, and how many it looked at.
    fn read(&self, test: Option<BitTest<'_>>) -> (usize, usize) {
        let queue = self.store.topics().get(TOPIC).unwrap().queue(0).unwrap();
        let (mut given, examined, mut offset) = (0, Cell::new(0), 0);
        loop {
            let properties = |p: &[u8]| {
                examined.set(examined.get() + 1);
                self.program.matches(p)
            };
            let mut wanted: Wanted<'_> = testing::all_from(offset);
            wanted.properties = Some(&properties);
            wanted.bits = test;
            let got = self.store.get(Some(&queue), &wanted).unwrap();
            if got.status == GetStatus::OffsetOverflowOne {
                return (given, examined.get());
            }
            (given, offset) = (given + got.count, got.next);
        }
    }

    fn test(&self) -> BitTest<'static> {
        BitTest {
            bits: &BITS,
            bitmap_len: 14,
            born_time: self.born.0,
            born_offset: self.born.1 as i64,
            until: &ALWAYS,
        }
    }
}

#[test]
fn what_the_bits_rule_out_is_not_read() {
    let rig = Rig::new();
    rig.put(0..600);
    rig.put(85..95);
    let given = 9 + 509 + 4;
    assert_eq!(rig.read(None), (given, 620));
    // The ten from before are read, all with numbers over 90, and one that shared their millisecond
    // at most.
    assert_eq!(rig.read(Some(rig.test())), (given, 10 + 509 + 4));
}

#[test]
fn bits_of_messages_from_before_say_nothing() {
    let rig = Rig::new();
    rig.put(95..100);
    let test = BitTest {
        bits: &[1], // of an expression that was never evaluated
        ..rig.test()
    };
    let (given, examined) = rig.read(Some(test));
    assert_eq!((given, examined), (9, 10));
    let later = (
        BitTest {
            born_time: i64::MAX,
            ..test
        },
        BitTest {
            born_offset: i64::MAX,
            ..test
        },
    );
    assert_eq!(rig.read(Some(later.0)), (14, 15));
    assert_eq!(rig.read(Some(later.1)), (14, 15));
    let other_len = BitTest {
        bitmap_len: 13,
        ..test
    };
    assert_eq!(rig.read(Some(other_len)), (14, 15));
}

#[test]
fn no_bits_once_nothing_is_evaluated() {
    let rig = Rig::new();
    let topic = rig.store.topics().get(TOPIC).unwrap();
    rig.store.set_expressions(&topic, None, |_| ()).unwrap();
    rig.put(0..5);
    assert_eq!(rig.read(Some(rig.test())), (9, 15));
}

#[test]
fn a_batch_has_bits_for_each_message() {
    let rig = Rig::new();
    let topic = rig.store.topics().get(TOPIC).unwrap();
    let mut guard = rig.store.put().unwrap();
    for n in [1, 95, 2, 96] {
        let properties = format!("number\x01{n}\x02");
        testing::append(&mut guard, &topic, properties.as_bytes(), b"body").unwrap();
    }
    drop(guard);
    assert_eq!(rig.read(Some(rig.test())), (11, 12));
}

#[test]
fn bits_say_nothing_from_their_end_on() {
    let rig = Rig::new();
    rig.put(95..100);
    let until = AtomicI64::new(i64::MAX);
    let test = BitTest {
        bits: &[1], // of an expression that was never evaluated
        until: &until,
        ..rig.test()
    };
    assert_eq!(rig.read(Some(test)), (9, 10));
    until.store(rig.born.1 as i64, Ordering::Relaxed);
    assert_eq!(rig.read(Some(test)), (14, 15));
}
