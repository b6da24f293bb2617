//! What the count of a queue costs:
//! `cargo test --release -p pyrmq-scan counts::bench -- --ignored --nocapture`

use super::*;
use pyrmq_format::cq_entry::CqEntry;
use pyrmq_format::names::file_name;
use std::time::Instant;

const ENTRIES: u64 = 10_000_000;
/// As brokers have it.
const PER_FILE: u64 = 300_000;

#[test]
#[ignore = "a measurement"]
fn ten_million_messages() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for first in (0..ENTRIES).step_by(PER_FILE as usize) {
        let mut bytes = vec![0; (PER_FILE * 20) as usize];
        let last = ENTRIES.min(first + PER_FILE);
        for (number, slot) in (first..last).zip(bytes.chunks_mut(20)) {
            let entry = CqEntry {
                phys: number as i64 * 300,
                size: 300,
                tags_code: 7,
            };
            entry.write(slot);
        }
        let path = dir.path().join(file_name(first * 20));
        std::fs::write(&path, &bytes).unwrap();
        let path = path.to_string_lossy().into_owned();
        files.push((first * 20, bytes.len() as u64, path));
    }
    let queue = Queue {
        topic: "T".to_owned(),
        id: 0,
        unit: 20,
        files,
    };
    let store = SegmentStore::default();
    for _ in 0..9 {
        let begin = Instant::now();
        let end = reach(&queue, 0, u64::MAX).unwrap().end;
        // There is no log: the first entry leads nowhere, as is seen after all were looked at.
        of_queue(&queue, (0, end), &RecordStarts::new(&store)).unwrap_err();
        println!(
            "{end} entries: {:.1} ms",
            begin.elapsed().as_secs_f64() * 1e3
        );
    }
}
