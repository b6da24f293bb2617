//! Rows of records: what the columns hold, and where the records come from.

use super::testing::*;
use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use pyrmq_format::properties;
use pyrmq_format::record::{self, sys_flag};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn one_file(messages: Vec<Sent>) -> (Disk, u64) {
    let log = log(1, messages.into_iter());
    (disk(&log.bytes), log.end as u64)
}

fn rows(messages: Vec<Sent>, columns: &[Column], change: impl Fn(&mut Settings)) -> RecordBatch {
    let (disk, end) = one_file(messages);
    let mut settings = settings(columns);
    settings.batch_rows = 100;
    change(&mut settings);
    let mut all = batches(&mut reader(&disk.file_set, (0, end), end, settings));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn of_equal_names_the_last_stays() {
    let mut many = Sent::plain(Vec::new());
    for i in 0..40 {
        properties::push(&mut many.props, format!("n{}", i % 30).as_bytes(), b"v");
    }
    let mut twice = Sent::plain(Vec::new());
    twice.props = b"A\x01one\x02B\x01x\x02A\x01two\x02TAGS\x01t\x02KEYS\x01k\x02".to_vec();
    let batch = rows(
        vec![many, twice],
        &[Column::Properties, Column::Tags],
        |_| {},
    );
    let map = batch.column(0).as_map();
    assert_eq!(map.value(0).len(), 31);
    let pairs = map.value(1);
    let texts = |i: usize| -> Vec<String> {
        let column = pairs.column(i).as_string::<i32>();
        column.iter().map(|s| s.unwrap().to_owned()).collect()
    };
    assert_eq!(texts(0), ["B", "A", "TAGS", "KEYS"]);
    assert_eq!(texts(1), ["x", "two", "t", "k"]);
    assert_eq!(batch.column(1).as_string::<i32>().value(1), "t");
}

#[test]
fn text_that_is_no_utf8_and_the_form_of_json() {
    let mut odd = Sent::plain(Vec::new());
    odd.props = b"A\x01\xff\"\\\n\x02A\x01last\xc3\x02".to_vec();
    let json = |s: &mut Settings| s.form = PropertiesForm::Json;
    let batch = rows(
        vec![odd],
        &[Column::Properties, Column::PropertiesRaw],
        json,
    );
    let text = batch.column(0).as_string::<i32>();
    assert_eq!(text.value(0), "{\"A\":\"last\u{fffd}\"}");
    assert!(
        batch
            .column(1)
            .as_string::<i32>()
            .value(0)
            .contains('\u{fffd}')
    );
}

#[test]
fn bodies_are_unpacked() {
    let body = b"all work and no play ".repeat(20);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&body).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&body).unwrap();
    let packed = [
        (0x001, zlib.finish().unwrap()),
        (0x101, lz4.finish().unwrap()),
        (0x201, zstd::encode_all(&body[..], 3).unwrap()),
    ];
    let with = |(flags, body): (i32, Vec<u8>)| Sent {
        sys_flag: flags,
        ..Sent::plain(body)
    };
    let stored: Vec<usize> = packed.iter().map(|p| p.1.len()).collect();
    let messages: Vec<Sent> = packed.into_iter().map(with).collect();
    for views in [false, true] {
        let columns = [Column::Body, Column::BodyLength];
        let batch = rows(messages.clone(), &columns, |s| s.views = views);
        let lengths = batch
            .column(1)
            .as_primitive::<arrow_array::types::Int32Type>();
        for (i, len) in stored.iter().enumerate() {
            let got = match views {
                true => batch.column(0).as_binary_view().value(i),
                false => batch.column(0).as_binary::<i32>().value(i),
            };
            assert_eq!((got, lengths.value(i) as usize), (&body[..], *len));
        }
        let raw = rows(messages.clone(), &columns, |s| {
            (s.views, s.decompress) = (views, false)
        });
        assert_eq!(raw.column(0).len(), 3);
    }
    // What cannot be unpacked is damage, and not the end.
    let (disk, end) = one_file(vec![
        with((0x701, vec![1, 2, 3])),
        with((0x301, vec![1, 2, 3])),
        Sent::plain(b"good".to_vec()),
    ]);
    let mut skipping = reader(&disk.file_set, (0, end), end, settings(&[Column::Body]));
    assert_eq!(batches(&mut skipping)[0].num_rows(), 1);
    assert_eq!(skipping.damage().len(), 2);
    assert!(skipping.damage()[0].why.contains("unknown way 7"));
    let strict = Settings {
        skip: false,
        ..settings(&[Column::Body])
    };
    let mut strict = reader(&disk.file_set, (0, end), end, strict);
    assert!(matches!(
        strict.next_batch(),
        Err(ScanError::Damaged { at: 0, .. })
    ));
    assert!(matches!(strict.next_batch(), Ok(None)));
}

fn child(body: &[u8], props: &[u8]) -> Vec<u8> {
    let size = 22 + body.len() + props.len();
    let mut out = Vec::new();
    for n in [size as i32, 0, 0, 5, body.len() as i32] {
        out.extend_from_slice(&n.to_be_bytes());
    }
    out.extend_from_slice(body);
    out.extend_from_slice(&(props.len() as i16).to_be_bytes());
    out.extend_from_slice(props);
    out
}

#[test]
fn inner_batches_come_apart() {
    let body = [
        child(b"one", b"TAGS\x01a\x02"),
        child(b"a body of more than twelve bytes", b"TAGS\x01b\x02"),
        child(b"", b"TAGS\x01a\x02"),
    ];
    let batch = Sent {
        sys_flag: sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP,
        queue_offset: 10,
        ..Sent::plain(body.concat())
    };
    let mut broken = batch.clone();
    broken.body.pop();
    let (disk, end) = one_file(vec![batch, broken, Sent::plain(b"last".to_vec())]);
    struct Range;
    impl TopicRules for Range {
        fn rule_of(&mut self, _: &str) -> Result<TopicRule> {
            let named = BTreeMap::from([(3, (11, 13))]).into_iter().collect();
            Ok(TopicRule::Queues { named, other: None })
        }
    }
    for (views, tag, expected) in [
        (false, None, vec![(10, 3), (11, 32), (12, 0), (0, 4)]),
        (true, None, vec![(10, 3), (11, 32), (12, 0), (0, 4)]),
        (false, Some("a"), vec![(10, 3), (12, 0), (0, 4)]),
    ] {
        let columns = [Column::QueueOffset, Column::BodyLength, Column::Body];
        let mut settings = settings(&columns);
        settings.views = views;
        let mut selection = Selection::new(None);
        selection.tags = tag.map(|t| vec![t.to_owned()]);
        let source = RecordSource::Range {
            file_set: disk.file_set.clone(),
            range: (0, end),
            log_end: end,
            exact: true,
        };
        let mut reader = Reader::new(source, selection, settings).unwrap();
        let all = batches(&mut reader);
        let offsets = all[0]
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec();
        let lengths = all[0]
            .column(1)
            .as_primitive::<arrow_array::types::Int32Type>();
        let got: Vec<_> = offsets
            .into_iter()
            .zip(lengths.values().iter().copied())
            .collect();
        assert_eq!(got, expected);
        assert_eq!(reader.damage().len(), 1);
    }
    let mut selection = Selection::new(Some(Box::new(Range)));
    let all = advance(&disk.file_set, (0, end), &mut selection, Advance::default()).unwrap();
    assert_eq!(all, (end, 2)); // the broken batch has none
    let bounds = Advance {
        max_rows: Some(1),
        ..Advance::default()
    };
    assert_eq!(
        advance(&disk.file_set, (0, end), &mut selection, bounds)
            .unwrap()
            .1,
        2
    );
}

#[test]
fn a_large_inner_batch_is_parted() {
    let body = child(b"", b"TAGS\x01a\x02").repeat(50);
    let sent = Sent {
        sys_flag: sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP,
        queue_offset: 5,
        ..Sent::plain(body)
    };
    let (disk, end) = one_file(vec![sent, Sent::plain(b"last".to_vec())]);
    let columns = [Column::QueueOffset, Column::Topic];
    let mut whole = reader(&disk.file_set, (0, end), end, settings(&columns));
    let parts = batches(&mut whole);
    assert!(parts.iter().all(|b| b.num_rows() <= 7));
    let offsets = parts
        .iter()
        .flat_map(|b| b.column(0).as_primitive::<Int64Type>().values());
    let expected: Vec<i64> = (5..55).chain([0]).collect();
    assert_eq!(offsets.copied().collect::<Vec<_>>(), expected);
    assert_eq!((whole.stats().records, whole.stats().rows), (2, 51));
}

#[test]
fn places_and_answers() {
    let log = log(3, tricky());
    let disk = disk(&log.bytes);
    let picked: Vec<(u64, u32)> = log
        .starts
        .iter()
        .step_by(3)
        .map(|&s| (s as u64, 0))
        .collect();
    let mut wrong = picked.clone();
    wrong.insert(1, (picked[0].0 + 1, 100));
    // Neighbours are read in one go, and nothing is read twice.
    struct Counting(Arc<AtomicUsize>);
    impl Open for Counting {
        fn open(&self, path: &str) -> std::io::Result<Box<dyn ReadAt>> {
            Ok(Box::new(Counted(self.0.clone(), OpenLocal.open(path)?)))
        }
    }
    struct Counted(Arc<AtomicUsize>, Box<dyn ReadAt>);
    impl ReadAt for Counted {
        fn read_at(&mut self, to: &mut [u8], at: u64) -> std::io::Result<usize> {
            self.0.fetch_add(1, Ordering::Relaxed);
            self.1.read_at(to, at)
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Counting(count.clone());
    let all = log.starts.iter().map(|&s| {
        let record::Found::Record(v) = record::read(&log.bytes[s..], false) else {
            unreachable!("a record starts there")
        };
        (s as u64, v.total as u32)
    });
    let source = RecordSource::Places {
        file_set: FileSet::new(disk.file_set.files.to_vec(), Arc::new(counting)).unwrap(),
        places: all.collect(),
    };
    let columns = [Column::CommitLogOffset];
    let mut reader = Reader::new(source, Selection::new(None), settings(&columns)).unwrap();
    let rows: usize = batches(&mut reader).iter().map(|b| b.num_rows()).sum();
    assert_eq!(rows, log.starts.len());
    let reads = count.load(Ordering::Relaxed);
    assert!(reads <= 6, "{reads} reads of three files");
    let source = |places| RecordSource::Places {
        file_set: disk.file_set.clone(),
        places,
    };
    let mut reader = Reader::new(
        source(wrong),
        Selection::new(None),
        settings(&[Column::CommitLogOffset]),
    )
    .unwrap();
    let rows: usize = batches(&mut reader).iter().map(|b| b.num_rows()).sum();
    assert_eq!((rows, reader.damage().len()), (picked.len(), 1));
    let twice = vec![picked[0], picked[0]];
    let refused = Reader::new(source(twice), Selection::new(None), settings(&[]));
    assert!(matches!(refused, Err(ScanError::Illegal(_))));

    let mut answer: Vec<u8> = (0..5)
        .flat_map(|i| Sent::plain(vec![b'z'; i]).record(i))
        .collect();
    answer.extend_from_slice(b"rubbish");
    let mut reader = Reader::new(
        RecordSource::Records(answer),
        Selection::new(None),
        settings(&[Column::Body]),
    )
    .unwrap();
    let rows: usize = batches(&mut reader).iter().map(|b| b.num_rows()).sum();
    assert_eq!((rows, reader.damage().len()), (5, 1));
}

#[test]
fn a_reader_goes_on_where_a_log_has_grown() {
    let batch = Sent {
        sys_flag: sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP,
        queue_offset: 5,
        ..Sent::plain(child(b"", b"TAGS\x01a\x02").repeat(50))
    };
    let middle = 5;
    let messages: Vec<Sent> = tricky()
        .take(middle)
        .chain([batch])
        .chain(tricky().take(20))
        .collect();
    let log = log(4, messages.into_iter());
    let disk = disk(&log.bytes);
    let columns = [Column::CommitLogOffset];
    let range = |start: usize, end: usize| RecordSource::Range {
        file_set: disk.file_set.clone(),
        range: (start as u64, end as u64),
        log_end: end as u64,
        exact: true,
    };
    let mut reader = Reader::new(range(0, 0), Selection::new(None), settings(&columns))
        .unwrap()
        .whole_records();
    let (mut seen, mut at) = (Vec::new(), 0);
    for end in log.starts.iter().skip(2).step_by(3).chain([&log.end]) {
        reader.go_on(range(at, *end), false).unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            let places = batch.column(0).as_primitive::<Int64Type>().values();
            seen.extend(places.iter().map(|&place| place as usize));
            assert_eq!(reader.last(), Some(*places.last().unwrap() as u64));
            // What comes next starts behind all that was given.
            let next = reader.place().unwrap() as usize;
            let given = log.starts.iter().filter(|&&start| start < next).count();
            let mut records = seen.clone();
            records.dedup();
            assert_eq!(records.len(), given);
        }
        at = *end;
    }
    let mut expected = log.starts.clone();
    for _ in 1..50 {
        expected.insert(middle, log.starts[middle]);
    }
    assert_eq!(seen, expected);
}
