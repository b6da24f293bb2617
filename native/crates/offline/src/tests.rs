//! The walk over files that hold anything, and where the log continues behind damage.

use super::log::{LogFile, LogFileSet};
use super::walk::{Event, Walker};
use super::{Selection, Verifier, Wanted};
use proptest::prelude::*;
use pyrmq_format::host::Host;
use pyrmq_format::names::file_name;
use pyrmq_format::record::{self, BLANK_LEN, Head};
use std::path::Path;

const FILE: usize = 2048;

fn record(phys: usize, body: usize) -> Vec<u8> {
    let host = Host::new("127.0.0.1:10911".parse().unwrap());
    let mut out = vec![0; record::encoded_len(&host, &host, body, 1, 0)];
    let head = Head {
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        phys: phys as u64,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 2,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    record::encode(&mut out, &head, b"T", &vec![b'x'; body], &[]);
    out
}

/// A log of two files, and where its records start.
fn log() -> (Vec<u8>, Vec<usize>) {
    let (mut out, mut starts) = (vec![0; 2 * FILE], Vec::new());
    let mut at = 0;
    while at < 2 * FILE - 700 {
        let bytes = record(at, 100 + at % 90);
        let left = FILE - at % FILE;
        if bytes.len() + BLANK_LEN > left {
            out[at..at + BLANK_LEN].copy_from_slice(&record::blank(left));
            at += left;
            continue;
        }
        out[at..at + bytes.len()].copy_from_slice(&bytes);
        starts.push(at);
        at += bytes.len();
    }
    (out, starts)
}

fn write(root: &Path, log: &[u8]) {
    std::fs::create_dir_all(root.join("commitlog")).unwrap();
    for (i, piece) in log.chunks(FILE).enumerate() {
        let name = file_name((i * FILE) as u64);
        std::fs::write(root.join("commitlog").join(name), piece).unwrap();
    }
}

/// Records that a walk finds, and where it says that something was lost.
fn walk(root: &Path, files: usize) -> (Vec<usize>, Vec<(u64, u64)>) {
    let file = |i: usize| LogFile {
        base: (i * FILE) as u64,
        len: FILE as u64,
        path: root.join("commitlog").join(file_name((i * FILE) as u64)),
        shown: String::new(),
    };
    let mut walker = Walker::new(LogFileSet::new((0..files).map(file).collect()));
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    while let Some(event) = walker.next() {
        match event {
            Event::Record(view) => found.push(view.phys as usize),
            Event::Damage { from, to, .. } => lost.push((from, to)),
            _ => {}
        }
    }
    (found, lost)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever stands in a part of the log, every record outside of it is found.
    #[test]
    fn records_outside_of_damage_are_found(
        at in 0usize..2 * FILE,
        junk in prop::collection::vec(any::<u8>(), 1..400),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut bytes, starts) = log();
        write(dir.path(), &bytes);
        prop_assert_eq!(walk(dir.path(), 2), (starts.clone(), vec![]));
        let end = (at + junk.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&junk[..end - at]);
        write(dir.path(), &bytes);
        let (found, _) = walk(dir.path(), 2);
        for (i, &start) in starts.iter().enumerate() {
            let next = starts.get(i + 1).copied().unwrap_or(2 * FILE);
            if end <= start || next <= at {
                prop_assert!(found.contains(&start), "{} of {:?}", start, found);
            }
        }
        prop_assert!(found.windows(2).all(|w| w[0] < w[1]));
    }

    /// Files of nothing but noise, with magics strewn in, neither hang nor panic.
    #[test]
    fn noise_is_borne(
        mut noise in prop::collection::vec(any::<u8>(), 2 * FILE),
        magics in prop::collection::vec(0usize..2 * FILE - 40, 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        for at in magics {
            noise[at + 4..at + 8].copy_from_slice(&record::MAGIC_V1.to_be_bytes());
            noise[at + 28..at + 36].copy_from_slice(&(at as u64).to_be_bytes());
            noise[at] = 0;
            noise[at + 1] = 0;
        }
        write(dir.path(), &noise);
        let queue = dir.path().join("consumequeue/T/0");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::write(queue.join(file_name(0)), &noise[..FILE / 20 * 20]).unwrap();
        std::fs::create_dir_all(dir.path().join("index")).unwrap();
        std::fs::write(dir.path().join("index/20260101000000000"), &noise).unwrap();
        let mut verifier = Verifier::new(dir.path().into(), &[], false).unwrap();
        verifier.step(u64::MAX);
        prop_assert!(verifier.is_done());
        prop_assert!(verifier.summary().records == 0);
        let topic = Some("T".to_owned());
        for key in [None, Some("k".to_owned())] {
            let wanted = Wanted { topic: topic.clone(), key, ..Default::default() };
            let mut selection = Selection::new(dir.path(), &[], wanted).unwrap();
            while !selection.next(100, 1 << 20).1 {}
        }
    }
}
