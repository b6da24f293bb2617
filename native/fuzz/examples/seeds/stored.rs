//! What lies on disk: records, logs, names and properties, queue entries, checkpoints and indexes.

use crate::{Corpus, PROPS, TIME};
use pyrmq_format::checkpoint::Checkpoint;
use pyrmq_format::cq_entry::{BATCH_SIZE, CqEntry, Entry, Layout, SIZE};
use pyrmq_format::host::Host;
use pyrmq_format::index::{Shape, key_hash, topic_seed};
use pyrmq_format::properties;
use pyrmq_format::queue_ext::Unit;
use pyrmq_format::record::{self, Head, sys_flag};
use pyrmq_store::IndexFile;
use std::fs;

fn record_of(
    phys: u64,
    offset: i64,
    hosts: [&str; 2],
    topic: &str,
    body: &[u8],
    props: &[u8],
) -> Vec<u8> {
    let [born_host, store_host] = hosts.map(|h| Host::new(h.parse().unwrap()));
    let head = Head {
        queue_id: 0,
        flag: 0,
        queue_offset: offset,
        phys,
        sys_flag: 0,
        born_timestamp: TIME,
        born_host,
        store_timestamp: TIME + 5,
        store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let n = record::encoded_len(
        &born_host,
        &store_host,
        body.len(),
        topic.len(),
        props.len(),
    );
    let mut out = vec![0; n];
    record::encode(&mut out, &head, topic.as_bytes(), body, &[props]);
    out
}

const V4: [&str; 2] = ["127.0.0.1:54321", "192.168.1.10:10911"];
const V6: [&str; 2] = ["[2001:db8::1]:54321", "[2001:db8::2]:10911"];
pub fn records(corpus: &Corpus) {
    let add = |name: &str, bytes: &[u8]| corpus.add("record", name, bytes);
    let plain = record_of(1024, 5, V4, "TopicTest", b"Hello RocketMQ", PROPS);
    add("plain", &plain);
    add("torn", &plain[..150]);
    add("followed", &[&plain[..], &plain[..40]].concat());
    add("empty", &record_of(0, 0, V4, "T", b"", b""));
    add("v6", &record_of(0, 0, V6, "T", b"b", b"A\x01b"));
    add(
        "born-v6",
        &record_of(0, 0, [V6[0], V4[1]], "T", b"b", PROPS),
    );
    add(
        "store-v6",
        &record_of(0, 0, [V4[0], V6[1]], "T", b"b", PROPS),
    );
    add("v2", &record_of(0, 0, V4, &"t".repeat(200), b"b", PROPS));
    let retry = format!("%RETRY%{}", "g".repeat(120));
    add("topic-127", &record_of(0, 0, V4, &retry, b"b", PROPS));
    let mut blank = [0; 100];
    let rest = record::blank(blank.len());
    blank[..rest.len()].copy_from_slice(&rest);
    add("blank", &blank);
    let mut half = plain.clone();
    half[36..40].copy_from_slice(&sys_flag::PREPARED.to_be_bytes());
    add("prepared", &half);
}

/// Logs for the Arrow reader, each behind its two bytes of choice.
pub fn segments(corpus: &Corpus) {
    let mut log = Vec::new();
    let mut ends = Vec::new();
    for (i, body) in [&b"one"[..], b"", b"three \xda\xa3\x20\xa7", &[0; 40]]
        .iter()
        .enumerate()
    {
        let hosts = if i % 2 == 0 { V4 } else { V6 };
        log.extend(record_of(
            log.len() as u64,
            i as i64,
            hosts,
            "TopicTest",
            body,
            PROPS,
        ));
        ends.push(log.len());
    }
    let mut batch = Vec::new();
    for body in [&b"first"[..], b"second"] {
        let size = 22 + body.len() + PROPS.len();
        for n in [size as i32, 0, 0, 9, body.len() as i32] {
            batch.extend(n.to_be_bytes());
        }
        batch.extend_from_slice(body);
        batch.extend((PROPS.len() as i16).to_be_bytes());
        batch.extend_from_slice(PROPS);
    }
    let at = log.len();
    log.extend(record_of(at as u64, 9, V4, "B", &batch, PROPS));
    let flags = sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP;
    log[at + 36..at + 40].copy_from_slice(&flags.to_be_bytes());
    let mut blank = [0; 60];
    let rest = record::blank(blank.len());
    blank[..rest.len()].copy_from_slice(&rest);
    log.extend(blank);
    let add = |name: &str, choice: u8, part: u8, log: &[u8]| {
        corpus.add("arrow", name, &[&[choice, part], log].concat());
        corpus.add("jvm", name, &[&[choice ^ 0x3a, part], log].concat());
    };
    add("plain", 8, 255, &log);
    add("columns", 3, 255, &log);
    add("strict", 48, 255, &log);
    add("parted", 24, 128, &log);
    add("torn", 8, 255, &log[..ends[2] - 9]);
    add("ahead", 8, 255, &[&log[..], &[0; 100]].concat());
}

pub fn texts(corpus: &Corpus) {
    let mut rewritten = PROPS.to_vec();
    for (name, value) in [
        ("MSG_REGION", "r"),
        ("TRACE_ON", "true"),
        ("CLUSTER", "c"),
        ("WAIT", "FALSE"),
        ("DELAY", "3"),
        ("TRAN_MSG", "true"),
        ("INNER_NUM", "2"),
    ] {
        properties::push(&mut rewritten, name.as_bytes(), value.as_bytes());
    }
    corpus.add("properties", "plain", PROPS);
    corpus.add("properties", "all-kinds", &rewritten);
    corpus.add("properties", "open-end", &PROPS[..PROPS.len() - 1]);
    let odd = b"A\x01x\x02\x01v\x02B\x01\x02C\x02D\x01y=\x01z\x02A\x01last";
    corpus.add("properties", "odd", odd);
    for (i, text) in [
        "TopicTest",
        "%RETRY%group-1",
        "%DLQ%g",
        "../x",
        "00000000001073741824",
        "x/00000000000000000000",
        "TagA",
        "CANCELLED",
        "\u{e4}\u{1F600}",
        " 3 ",
        "18",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "+5",
        "00000000000000000001",
    ]
    .iter()
    .enumerate()
    {
        corpus.add("text", &format!("{i:02}"), text.as_bytes());
    }
}

fn entry(phys: i64, size: i32, tags_code: i64) -> [u8; SIZE] {
    let mut slot = [0; SIZE];
    let e = CqEntry {
        phys,
        size,
        tags_code,
    };
    e.write(&mut slot);
    slot
}

fn point(time: i64) -> Checkpoint {
    Checkpoint {
        physic_msg_timestamp: time,
        logics_msg_timestamp: time + 500,
        index_msg_timestamp: time,
        ..Default::default()
    }
}

pub fn files(corpus: &Corpus) {
    corpus.add("checkpoint", "plain", &point(TIME).encode()[..48]);
    let replicated = Some(TIME);
    let waits = Checkpoint {
        replicated,
        ..point(TIME)
    };
    corpus.add("checkpoint", "replicated", &waits.encode());
    corpus.add("checkpoint", "early", &point(1000).encode()[..40]);
    corpus.add("checkpoint", "low", &point(i64::MIN).encode()[..40]);
    corpus.add("checkpoint", "short", &point(TIME).encode()[..39]);

    let row: Vec<u8> = (0..12)
        .flat_map(|n| entry(n * 180, 180, if n % 3 == 0 { 2598919 } else { -n }))
        .collect();
    let tag = 2598919i32.to_be_bytes();
    let input = |head: &[u8], codes: &[&[u8]]| [head, &codes.concat(), &row].concat();
    corpus.add("entries", "one-tag", &input(&[1, 16], &[&tag]));
    let other = (-2i32).to_be_bytes();
    corpus.add("entries", "two-tags", &input(&[2, 2], &[&tag, &other]));
    corpus.add("entries", "no-tag", &input(&[0, 255], &[]));
    let end = [&[1, 9][..], &tag, &row[..100], &[0; 40], &row[..33]].concat();
    corpus.add("entries", "end", &end);
    let blank = entry(0, i32::MAX, 0);
    corpus.add(
        "entries",
        "pre-blank",
        &[&[1, 9][..], &tag, &blank, &row].concat(),
    );

    let batches: Vec<u8> = (0..5)
        .flat_map(|n| {
            let e = Entry {
                cq: CqEntry::read(&entry(n * 180, 180, n)),
                base: n * 5,
                count: 5,
                store_time: TIME,
            };
            let mut slot = [0; BATCH_SIZE];
            Layout::Batch.write(&e, &mut slot);
            slot
        })
        .collect();
    corpus.add("entries", "batch", &[&[0, 9][..], &batches].concat());
    let unit = Unit {
        tags_code: 2598919,
        store_time: TIME,
        bitmap: &[0xAA; 30],
    };
    let mut bytes = vec![0; unit.size()];
    unit.write(&mut bytes);
    corpus.add(
        "entries",
        "unit",
        &[&[0, 9][..], &bytes, &[0xFF; 2]].concat(),
    );

    // Records one behind the other, a blank at the end of the first file of 4096 bytes.
    let mut log = Vec::new();
    let mut entries = Vec::new();
    let mut count = 0;
    while log.len() < 4096 + 900 {
        let body = vec![b'x'; 300 + 10 * count];
        let r = record_of(log.len() as u64, count as i64, V4, "T", &body, PROPS);
        let left = 4096usize.saturating_sub(log.len());
        if log.len() < 4096 && left < r.len() + 8 {
            let mut blank = vec![0; left];
            let rest = record::blank(blank.len());
            blank[..rest.len()].copy_from_slice(&rest);
            log.extend(blank);
            continue;
        }
        entries.extend(entry(log.len() as i64, r.len() as i32, 2598919));
        log.extend(r);
        count += 1;
    }
    let n = count as u8;
    let add = |name: &str, parts: &[&[u8]]| corpus.add("recover", name, &parts.concat());
    let checkpoint = &point(TIME).encode()[..40];
    add("clean", &[&[2, n], &entries, checkpoint, &log]);
    add("crashed", &[&[3, n], &entries, checkpoint, &log]);
    add("no-crc", &[&[5, n], &entries, &log]);
    add("no-queue", &[&[0, 0], &log[..2000]]);
    add("torn", &[&[1, n], &entries, &log[..log.len() - 100]]);
    add(
        "hole",
        &[&[1, 2], &entries[..40], &log[..900], &[0; 300], &log[900..]],
    );
    add(
        "late-queue",
        &[&[1, 0], &record_of(0, 77, V4, "T", b"late", PROPS)],
    );
    let far = record_of(0, 1 << 60, V4, "T", b"far", PROPS);
    add("far-offset", &[&[1, 0], &far]);
    let mut negative = entries.clone();
    negative[28..32].copy_from_slice(&(-5i32).to_be_bytes());
    add("negative-size", &[&[0, n], &negative, &log]);
    add("few-entries", &[&[0, 3], &entries[..60], &log[..3000]]);
    add("many-entries", &[&[0, n], &entries, &log[..1500]]);
}

/// A small index file with some keys, as the store makes it, with the input's head before it.
pub fn indexes(corpus: &Corpus) {
    let (slots, entries) = (4, 12);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("20261120201450885");
    let index = IndexFile::create(
        path.clone(),
        Shape::new(slots, entries).unwrap(),
        TIME - 5000,
        100,
    )
    .unwrap();
    let seed = topic_seed(b"TopicTest");
    let head = |flags| [slots as u8 - 1, entries as u8 - 2, flags];
    let add = |name: &str, flags: u8| {
        let file = fs::read(&path).unwrap();
        corpus.add("index", name, &[&head(flags)[..], &file].concat());
        file
    };
    add("empty", 1);
    for (n, key) in ["order-1", "order-2", "order-1", "order-3", "k"]
        .iter()
        .enumerate()
    {
        let phys = 200 * (n as i64 + 1);
        let hash = key_hash(seed, key.as_bytes());
        index.put(hash, phys, TIME + 1000 * n as i64).unwrap();
    }
    let mut file = add("five", 1);
    add("five-made-to-fit", 3);
    // An entry that names itself as the one before.
    let at = Shape::new(slots, entries).unwrap().entry_at(3);
    file[at + 16..at + 20].copy_from_slice(&3i32.to_be_bytes());
    corpus.add("index", "loop", &[&head(1)[..], &file].concat());
    corpus.add("index", "short", &[&head(0)[..], &file[..100]].concat());
    while index
        .put(key_hash(seed, b"order-1"), 5000, TIME + 60_000)
        .unwrap()
    {}
    add("full", 1);

    let text: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
    for (from, to, len) in [
        (0, 0, 15),
        (0, 0, 16),
        (1, 2, 63),
        (3, 0, 64),
        (0, 5, 129),
        (7, 9, 300),
    ] {
        let input = [&[from, to], &text[..len]].concat();
        corpus.add("crc", &format!("{len:03}"), &input);
    }
}
