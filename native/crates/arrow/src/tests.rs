//! Logs of small files that hold anything, read in any parts.

use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;
use pyrmq_format::get_i32;
use pyrmq_format::host::Host;
use pyrmq_format::names::file_name;
use pyrmq_format::properties;
use pyrmq_format::record::{self, BLANK_LEN, Head, sys_flag};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const FILE: usize = 2048;

#[derive(Clone)]
struct Sent {
    topic: &'static [u8],
    body: Vec<u8>,
    props: Vec<u8>,
    sys_flag: i32,
    queue_offset: i64,
}

impl Sent {
    fn plain(body: Vec<u8>) -> Self {
        Sent {
            topic: b"T",
            body,
            props: b"TAGS\x01a\x02".to_vec(),
            sys_flag: 0,
            queue_offset: 0,
        }
    }

    fn record(&self, phys: usize) -> Vec<u8> {
        let host = Host::new("127.0.0.1:10911".parse().unwrap());
        let len = record::encoded_len(
            &host,
            &host,
            self.body.len(),
            self.topic.len(),
            self.props.len(),
        );
        let mut out = vec![0; len];
        let head = Head {
            queue_id: 3,
            flag: 7,
            queue_offset: self.queue_offset,
            phys: phys as u64,
            sys_flag: self.sys_flag,
            born_timestamp: 1,
            born_host: host,
            store_timestamp: 2 + phys as i64,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        record::encode(&mut out, &head, self.topic, &self.body, &[&self.props]);
        out
    }
}

/// A log, where its records start, and where it ends.
struct Log {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    end: usize,
}

fn log(files: usize, messages: impl Iterator<Item = Sent>) -> Log {
    let (mut bytes, mut starts, mut at) = (vec![0; files * FILE], Vec::new(), 0);
    for sent in messages {
        let mut one = sent.record(at);
        let left = FILE - at % FILE;
        if one.len() + BLANK_LEN > left {
            if at + left >= bytes.len() {
                break;
            }
            bytes[at..at + BLANK_LEN].copy_from_slice(&record::blank(left));
            at += left;
            one = sent.record(at);
        }
        bytes[at..at + one.len()].copy_from_slice(&one);
        starts.push(at);
        at += one.len();
    }
    let end = at;
    Log { bytes, starts, end }
}

/// Messages whose bodies hold bare magics and whole records that stood elsewhere.
fn tricky() -> impl Iterator<Item = Sent> {
    (0usize..).map(|i| {
        Sent::plain(match i % 4 {
            0 => vec![b'x'; i * 37 % 300],
            1 => Sent::plain(vec![b'y'; 40]).record(i * 11),
            2 => b"\xda\xa3\x20\xa7\xcb\xd4\x31\x94".repeat(i % 9),
            _ => Vec::new(),
        })
    })
}

struct Disk {
    file_set: FileSet,
    _dir: tempfile::TempDir,
}

fn disk(bytes: &[u8]) -> Disk {
    let dir = tempfile::tempdir().unwrap();
    let files = bytes.chunks(FILE).enumerate().map(|(i, piece)| {
        let base = (i * FILE) as u64;
        let path = dir.path().join(file_name(base));
        std::fs::write(&path, piece).unwrap();
        let (len, path) = (piece.len() as u64, path.to_string_lossy().into_owned());
        LogFile { base, len, path }
    });
    let file_set = FileSet::new(files.collect(), Arc::new(Small)).unwrap();
    Disk {
        file_set,
        _dir: dir,
    }
}

/// Local files, read a few bytes at a time, so that whatever is looked for crosses such a step.
struct Small;

impl Open for Small {
    fn open(&self, path: &str) -> std::io::Result<Box<dyn ReadAt>> {
        OpenLocal.open(path)
    }

    fn step(&self) -> usize {
        50
    }
}

fn settings(columns: &[Column]) -> Settings {
    Settings {
        columns: columns.to_vec(),
        form: PropertiesForm::Map,
        broker: "b".to_owned(),
        decompress: true,
        verify: Verify::All,
        skip: true,
        batch_rows: 7,
        batch_bytes: 1 << 20,
        views: false,
    }
}

fn reader(file_set: &FileSet, range: (u64, u64), log_end: u64, settings: Settings) -> Reader {
    let source = RecordSource::Range {
        file_set: file_set.clone(),
        range,
        log_end,
        exact: range.0 == 0,
    };
    Reader::new(source, Selection::new(None), settings).unwrap()
}

fn batches(reader: &mut Reader) -> Vec<RecordBatch> {
    std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
}

/// Physical offsets of the rows, and the bytes that were skipped.
fn places(file_set: &FileSet, range: (u64, u64), log_end: u64) -> (Vec<usize>, u64) {
    let mut reader = reader(
        file_set,
        range,
        log_end,
        settings(&[Column::CommitLogOffset]),
    );
    let rows = batches(&mut reader);
    let column = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
    let found = rows.iter().flat_map(column).map(|p| p as usize).collect();
    (found, reader.stats().skipped_bytes)
}

/// Places where a whole record still stands.
fn sound(log: &Log, bytes: &[u8]) -> Vec<usize> {
    let is_sound = |&&at: &&usize| match record::read(&bytes[at..], true) {
        record::Found::Record(v) => v.phys == at as i64,
        _ => false,
    };
    log.starts.iter().filter(is_sound).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_record_once_and_all_damage_once_whatever_the_cuts(
        cuts in prop::collection::vec(0usize..3 * FILE, 0..40),
        harm in prop::collection::vec((0usize..3 * FILE, 1usize..400, any::<bool>()), 0..4),
        by_file in any::<bool>(),
    ) {
        let log = log(3, tricky());
        let mut bytes = log.bytes.clone();
        for (at, len, zeros) in harm {
            let to = (at + len).min(log.end);
            for (i, b) in bytes[at.min(to)..to].iter_mut().enumerate() {
                *b = if zeros { 0 } else { (i * 7 + len) as u8 | 1 };
            }
        }
        let disk = disk(&bytes);
        let end = log.end as u64;
        let whole = places(&disk.file_set, (0, end), end);
        prop_assert_eq!(&whole.0, &sound(&log, &bytes));
        let mut edges: Vec<u64> = cuts.into_iter().map(|c| (c as u64).min(end)).collect();
        edges.extend([0, end]);
        if by_file {
            edges.extend([FILE as u64, 2 * FILE as u64].map(|e| e.min(end)));
        }
        edges.sort_unstable();
        edges.dedup();
        let (mut rows, mut skipped) = (Vec::new(), 0);
        for pair in edges.windows(2) {
            let (found, lost) = places(&disk.file_set, (pair[0], pair[1]), end);
            rows.extend(found);
            skipped += lost;
        }
        prop_assert_eq!((rows, skipped), whole);
    }

    #[test]
    fn the_end_is_behind_the_last_whole_record(
        cut in 0usize..3 * FILE, rubbish in any::<bool>(), from in any::<prop::sample::Index>(),
    ) {
        let log = log(3, tricky());
        let mut bytes = log.bytes.clone();
        let cut = cut.min(log.end);
        bytes[cut..].fill(0);
        if rubbish && cut + 4 < bytes.len() {
            bytes[cut..cut + 4].copy_from_slice(b"\xff\xee\xdd\xcc");
        }
        let expected = plain_end(&bytes);
        let disk = disk(&bytes);
        prop_assert_eq!(find_end(&disk.file_set, None).unwrap().0 as usize, expected);
        let whole: Vec<usize> = log.starts.iter().copied().filter(|&s| s < expected).collect();
        if !whole.is_empty() {
            let start = *from.get(&whole) as u64;
            prop_assert_eq!(find_end(&disk.file_set, Some(start)).unwrap().0 as usize, expected);
        }
    }
}

/// Where a log without damage ends, said plainly.
fn plain_end(bytes: &[u8]) -> usize {
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        let file_end = (at / FILE + 1) * FILE;
        match record::read(&bytes[at..file_end], false) {
            record::Found::Record(v) if v.phys == at as i64 => {
                last = Some((at, v.clone()));
                at += v.total;
            }
            record::Found::Blank if file_end - at == get_i32(bytes, at) as usize => at = file_end,
            _ => break,
        }
    }
    match last {
        Some((start, v)) if start + v.total == at => {
            let r = &bytes[start..at];
            let zero = r[v.topic.clone()].contains(&0) || r[v.props.clone()].contains(&0);
            if zero || !walk::crc_fits(&v, r) {
                start
            } else {
                at
            }
        }
        _ => at,
    }
}

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
fn turns_stop_where_they_must() {
    let log = log(3, tricky());
    let disk = disk(&log.bytes);
    let end = log.end as u64;
    for rows in [1u64, 3, 10] {
        let mut at = 0;
        let mut seen = 0;
        while at < end {
            let bounds = Advance {
                max_rows: Some(rows),
                ..Advance::default()
            };
            let mut selection = Selection::new(None);
            let (to, n) = advance(&disk.file_set, (at, end), &mut selection, bounds).unwrap();
            assert!(to > at && n <= rows);
            seen += n as usize;
            at = to;
        }
        assert_eq!(seen, log.starts.len());
    }
    let bounds = Advance {
        max_bytes: Some(1),
        ..Advance::default()
    };
    let first = advance(&disk.file_set, (0, end), &mut Selection::new(None), bounds).unwrap();
    assert_eq!(first, (log.starts[1] as u64, 1));
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
fn files_that_are_cut_or_gone_are_errors_with_a_place() {
    let log = log(3, tricky());
    let disk = disk(&log.bytes);
    let end = log.end as u64;
    let second = disk.file_set.files[1].path.clone();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&second)
        .unwrap();
    file.set_len(500).unwrap();
    let strict = || Settings {
        skip: false,
        ..settings(&[Column::Topic])
    };
    let mut cut = reader(&disk.file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| cut.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(error.to_string().contains(&second), "{error}");
    // Whoever begins behind the cut says so as well.
    let mut behind = reader(
        &disk.file_set,
        (FILE as u64 + 900, FILE as u64 + 1100),
        end,
        strict(),
    );
    assert!(matches!(
        behind.next_batch(),
        Err(ScanError::Damaged { .. })
    ));
    std::fs::remove_file(&second).unwrap();
    let mut gone = reader(&disk.file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| gone.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(matches!(error, ScanError::Io { .. }), "{error}");
    let holes = [
        disk.file_set.files[0].clone(),
        disk.file_set.files[2].clone(),
    ];
    let file_set = FileSet::new(holes.to_vec(), Arc::new(OpenLocal)).unwrap();
    let mut hole = reader(&file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| hole.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(
        error.to_string().contains("a segment is missing"),
        "{error}"
    );
    let twice = vec![
        disk.file_set.files[0].clone(),
        disk.file_set.files[0].clone(),
    ];
    assert!(FileSet::new(twice, Arc::new(OpenLocal)).is_err());
}
