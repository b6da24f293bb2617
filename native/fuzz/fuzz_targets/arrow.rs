//! Segments as Arrow batches. Input: a byte that chooses (columns, unpacking, whether damage is
//! skipped), a byte for where the two files part, then the log.
//!
//! - Nothing panics, and what comes out passes Arrow's own full check.
//! - Cut where micro-batches end, a log gives the same rows and the same damage as read in one
//!   go. (Cut anywhere it need not: a body may hold what looks like a record or a blank one. Splits begin
//!   where queue entries say that a record starts.)
//! - The end that is found is an end: reading up to it meets no more than reading all.
#![no_main]

use arrow_array::{Array, RecordBatch};
use libfuzzer_sys::fuzz_target;
use pyrmq_arrow::{
    ALL, Advance, FileSet, LogFile, Open, PropertiesForm, ReadAt, Reader, RecordSource, Selection,
    Settings, Verify, advance, find_end, first_times,
};
use pyrmq_fuzz::Dice;
use std::io;
use std::sync::Arc;

struct Memory(Vec<(String, Vec<u8>)>);

impl Open for Memory {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        let file = self
            .0
            .iter()
            .find(|f| f.0 == path)
            .expect("a file of the file_set");
        Ok(Box::new(Bytes(file.1.clone())))
    }

    fn step(&self) -> usize {
        64
    }
}

struct Bytes(Vec<u8>);

impl ReadAt for Bytes {
    fn read_at(&mut self, to: &mut [u8], at: u64) -> io::Result<usize> {
        let from = (at as usize).min(self.0.len());
        let n = to.len().min(self.0.len() - from);
        to[..n].copy_from_slice(&self.0[from..from + n]);
        Ok(n)
    }
}

fuzz_target!(|data: &[u8]| {
    let [choice, part, log @ ..] = data else {
        return;
    };
    let (first, second) = log.split_at(log.len() * *part as usize / 255);
    let names = ["0", "1"].map(str::to_owned);
    let files = Memory(vec![
        (names[0].clone(), first.to_vec()),
        (names[1].clone(), second.to_vec()),
    ]);
    let [zero, one] = names;
    let file_set = vec![
        LogFile {
            base: 0,
            len: first.len() as u64,
            path: zero,
        },
        LogFile {
            base: first.len() as u64,
            len: second.len() as u64,
            path: one,
        },
    ];
    let Ok(file_set) = FileSet::new(file_set, Arc::new(files)) else {
        return;
    };
    let settings = Settings {
        columns: ALL.iter().copied().skip(*choice as usize % 8).collect(),
        form: [
            PropertiesForm::Map,
            PropertiesForm::Json,
            PropertiesForm::Raw,
        ][*choice as usize % 3],
        broker: "b".to_owned(),
        decompress: choice & 8 != 0,
        verify: if choice & 16 != 0 {
            Verify::All
        } else {
            Verify::Nothing
        },
        skip: choice & 32 == 0,
        batch_rows: 3,
        batch_bytes: 1 << 20,
        views: false,
    };
    let _ = first_times(&file_set);
    let Ok((end, _)) = find_end(&file_set, None) else {
        return;
    };
    assert!(end <= log.len() as u64);
    // The micro-batches of a stream.
    let mut cuts = vec![0];
    let mut dice = Dice::of(data);
    while let Some(&from) = cuts.last()
        && from < end
    {
        let bounds = Advance {
            max_rows: Some(1 + dice.below(3) as u64),
            skip: true,
            ..Advance::default()
        };
        let mut all = Selection::new(None);
        let (to, _) = advance(&file_set, (from, end), &mut all, bounds).unwrap();
        assert!(to > from && to <= end);
        cuts.push(to);
    }
    let read = |range: (u64, u64)| {
        let source = RecordSource::Range {
            file_set: file_set.clone(),
            range,
            log_end: end,
            exact: true,
        };
        let mut reader = Reader::new(source, Selection::new(None), settings.clone()).unwrap();
        let mut out: Vec<RecordBatch> = Vec::new();
        while let Ok(Some(batch)) = reader.next_batch() {
            assert!(batch.num_rows() > 0);
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
            out.push(batch);
        }
        let rows: usize = out.iter().map(|b| b.num_rows()).sum();
        (rows, reader.stats().skipped_bytes)
    };
    let whole = read((0, end));
    if settings.skip {
        let parts = cuts.windows(2).map(|c| read((c[0], c[1])));
        let sum = parts.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert_eq!(sum, whole);
    }
    let source = RecordSource::Records(log.to_vec());
    let mut reader = Reader::new(source, Selection::new(None), settings).unwrap();
    while let Ok(Some(batch)) = reader.next_batch() {
        for column in batch.columns() {
            column.to_data().validate_full().unwrap();
        }
    }
});
