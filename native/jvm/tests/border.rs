//! The border without a JVM: what Java can ask, by handles and numbers. One test at a time, since what
//! the process holds is counted.

use pyrmq_format::host::Host;
use pyrmq_format::record::{self, Head};
use pyrmq_jvm::border;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|before| before.into_inner())
}

const BODY: usize = 100;

fn record(number: usize, phys: usize) -> Vec<u8> {
    let host = Host::new("127.0.0.1:10911".parse().unwrap());
    let (topic, body) = (b"orders", vec![b'a' + (number % 26) as u8; BODY]);
    let props = format!("TAGS\x01T{}\x02KEYS\x01k{number}\x02", number % 2);
    let len = record::encoded_len(&host, &host, body.len(), topic.len(), props.len());
    let mut out = vec![0; len];
    let head = Head {
        queue_id: (number % 4) as i32,
        flag: 0,
        queue_offset: (number / 4) as i64,
        phys: phys as u64,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: host,
        store_timestamp: 1_700_000_000_000 + number as i64,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    record::encode(&mut out, &head, topic, &body, &[props.as_bytes()]);
    out
}

/// A store of one file; `damaged`: that record is no record.
fn store(messages: usize, damaged: Option<usize>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("commitlog");
    std::fs::create_dir(&log).unwrap();
    let mut bytes = Vec::new();
    for number in 0..messages {
        let mut one = record(number, bytes.len());
        if damaged == Some(number) {
            one[4..40].fill(0xee);
        }
        bytes.extend(one);
    }
    bytes.resize(bytes.len() + 4096, 0);
    std::fs::write(log.join("00000000000000000000"), bytes).unwrap();
    dir
}

fn call(request: Value) -> Result<Value, pyrmq_jvm::Failure> {
    let answer = border::call(request.to_string().as_bytes())?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

fn request(path: &Path) -> Value {
    json!({
        "paths": [path],
        "how": {"columns": ["queueId", "tags", "body"], "batch_rows": 10},
    })
}

fn open(path: &Path) -> i64 {
    let planned = call(json!({"op": "plan", "request": request(path)})).unwrap();
    let tasks = planned["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1);
    border::open(tasks[0].to_string().as_bytes()).unwrap()
}

fn held() -> Value {
    call(json!({"op": "held"})).unwrap()
}

fn nothing() -> Value {
    json!({"tasks": 0, "streams": 0, "batches": 0, "bytes": 0})
}

/// The buffer whose address stands at a place of the numbers.
fn buffer(numbers: &[i64], at: usize) -> &[u8] {
    // SAFETY: the numbers are those of the batch that is held now; the library states its length.
    unsafe { std::slice::from_raw_parts(numbers[at] as *const u8, numbers[at + 1] as usize) }
}

/// Queue and body of each row of a batch of `request`.
fn rows(numbers: &[i64]) -> Vec<(i32, Vec<u8>)> {
    // queueId: nulls, 2, bitmap, values, children; tags: nulls, 3, bitmap, offsets, texts, children.
    let int =
        |bytes: &[u8], at: usize| i32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
    let (queues, offsets, bodies) = (buffer(numbers, 6), buffer(numbers, 22), buffer(numbers, 24));
    (0..numbers[0] as usize)
        .map(|row| {
            let (from, to) = (int(offsets, row) as usize, int(offsets, row + 1) as usize);
            (int(queues, row), bodies[from..to].to_vec())
        })
        .collect()
}

#[test]
fn reads_what_is_stored() {
    let _alone = alone();
    let dir = store(35, None);
    let handle = open(dir.path());
    let mut found = Vec::new();
    let mut batches = 0;
    while let Some(numbers) = border::next(handle).unwrap() {
        batches += 1;
        let now = held();
        assert_eq!(
            [&now["tasks"], &now["batches"], &now["bytes"]],
            [&json!(1), &json!(1), &json!(numbers[1])]
        );
        found.extend(rows(&numbers));
    }
    let sent = (0..35).map(|i| (i % 4, vec![b'a' + (i % 26) as u8; BODY]));
    assert_eq!(found, sent.collect::<Vec<_>>());
    assert_eq!(batches, 4);
    assert_eq!(border::next(handle).unwrap(), None);
    let stats: Value = serde_json::from_slice(&border::stats(handle).unwrap()).unwrap();
    assert_eq!(
        [&stats["rows"], &stats["records"]],
        [&json!(35), &json!(35)]
    );
    border::close(handle).unwrap();
    assert_eq!(held(), nothing());
}

/// A batch goes with release, with the next one, and with its task.
#[test]
fn a_batch_is_freed() {
    let _alone = alone();
    let dir = store(35, None);
    let handle = open(dir.path());
    border::next(handle).unwrap().unwrap();
    border::release(handle).unwrap();
    assert_eq!(held()["batches"], 0);
    assert_eq!(held()["bytes"], 0);
    border::release(handle).unwrap();
    border::next(handle).unwrap().unwrap();
    border::next(handle).unwrap().unwrap();
    assert_eq!(held()["batches"], 1);
    border::close(handle).unwrap();
    assert_eq!(held(), nothing());
    border::close(handle).unwrap();
}

#[test]
fn what_is_closed_or_never_was_is_an_error() {
    let _alone = alone();
    let dir = store(5, None);
    let handle = open(dir.path());
    border::close(handle).unwrap();
    for wrong in [handle, 0, -1, handle + 1, i64::MIN, i64::MAX] {
        for failure in [
            border::next(wrong).unwrap_err(),
            border::next_within(wrong, 1).unwrap_err(),
            border::release(wrong).unwrap_err(),
            border::stats(wrong).unwrap_err(),
        ] {
            assert!(failure.message.contains("is closed, or was never"));
        }
        border::close(wrong).unwrap();
    }
    assert!(call(json!({"op": "stream.end", "stream": 77})).is_err());
    assert_eq!(held(), nothing());
}

#[test]
fn requests_that_are_none() {
    let _alone = alone();
    for wrong in [
        "",
        "x",
        "[]",
        "{}",
        "{\"op\":7}",
        "{\"op\":\"plan\"}",
        "\u{0}",
    ] {
        assert!(border::call(wrong.as_bytes()).is_err(), "{wrong}");
        assert!(border::open(wrong.as_bytes()).is_err(), "{wrong}");
    }
    let deep = "[".repeat(100_000);
    assert!(border::call(deep.as_bytes()).is_err());
    let views = json!({"op": "plan", "request": {"paths": ["/"], "how": {"views": true}}});
    assert!(call(views).is_err());
}

/// Errors have their class, and the names of Spark's options.
#[test]
fn damage_names_the_option() {
    let _alone = alone();
    let dir = store(20, Some(13));
    let handle = open(dir.path());
    border::next(handle).unwrap().unwrap();
    let failure = border::next(handle).unwrap_err();
    assert_eq!(failure.kind, "SegmentDamagedError");
    assert!(failure.hint.contains("onCorruption=skip"), "{failure:?}");
    assert_eq!(held()["batches"], 0);
    border::close(handle).unwrap();
    let failure = call(json!({"op": "plan", "request": {"paths": ["/no/such"]}})).unwrap_err();
    assert_eq!(failure.kind, "SegmentPathError");
}

/// A mapped file can end the JVM with a signal.
#[test]
fn views_are_refused() {
    let _alone = alone();
    let dir = store(5, None);
    let mut planned = call(json!({"op": "plan", "request": request(dir.path())})).unwrap();
    let task = &mut planned["tasks"][0];
    task["how"]["views"] = json!(true);
    let failure = border::open(task.to_string().as_bytes()).unwrap_err();
    assert_eq!(failure.kind, "SegmentOptionError");
}

/// A file that is cut while it is read is an error, and no signal.
#[test]
fn a_log_that_is_cut_while_it_is_read() {
    let _alone = alone();
    let dir = store(10_000, None);
    let handle = open(dir.path());
    border::next(handle).unwrap().unwrap();
    let file = dir.path().join("commitlog/00000000000000000000");
    std::fs::File::options()
        .write(true)
        .open(file)
        .unwrap()
        .set_len(1000)
        .unwrap();
    let failure = loop {
        match border::next(handle) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the end of a log that is not there"),
            Err(failure) => break failure,
        }
    };
    assert_eq!(failure.kind, "SegmentDamagedError");
    border::close(handle).unwrap();
}

/// Threads that read, free and close the same tasks: each call gives a batch or an error, and nothing
/// is left.
#[test]
fn threads_at_one_task() {
    let _alone = alone();
    let dir = store(2_000, None);
    let handles: Vec<i64> = (0..4).map(|_| open(dir.path())).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handles = &handles;
            scope.spawn(move || {
                for turn in 0..400 {
                    let handle = handles[(thread + turn) % handles.len()];
                    match turn % 7 {
                        0 => drop(border::release(handle)),
                        1 => drop(border::stats(handle)),
                        6 if turn > 350 => border::close(handle).unwrap(),
                        _ => drop(border::next(handle)),
                    }
                }
            });
        }
    });
    for handle in handles {
        border::close(handle).unwrap();
    }
    assert_eq!(held(), nothing());
}

/// A stream gives its batches as tasks; a tail gives what is there, then nothing within its time.
#[test]
fn streams() {
    let _alone = alone();
    let dir = store(30, None);
    let asked = request(dir.path());
    let opened = call(json!({
        "op": "stream.open", "request": asked,
        "limits": {"max_offsets": 12, "max_bytes": null, "min_offsets": null, "max_delay_ms": 1000},
    }))
    .unwrap();
    let stream = &opened["stream"];
    let position = |answer: Value| -> Value {
        serde_json::from_str(answer["position"].as_str().unwrap()).unwrap()
    };
    let first = position(call(json!({"op": "stream.initial", "stream": stream})).unwrap());
    let latest = |start: &Value, limit: Value| {
        let asked =
            json!({"op": "stream.latest", "stream": stream, "start": start, "limit": limit});
        position(call(asked).unwrap())
    };
    let mut counts = Vec::new();
    let mut at = first.clone();
    loop {
        let next = latest(&at, json!("own"));
        if next == at {
            break;
        }
        let tasks = json!({"op": "stream.splits", "stream": stream, "start": at, "end": next});
        let mut count = 0;
        for task in call(tasks).unwrap()["tasks"].as_array().unwrap() {
            let handle = border::open(task.to_string().as_bytes()).unwrap();
            while let Some(numbers) = border::next(handle).unwrap() {
                count += numbers[0];
            }
            border::close(handle).unwrap();
        }
        counts.push(count);
        at = next;
    }
    assert_eq!(counts, [12, 12, 6]);
    assert_eq!(latest(&first, json!("all")), at);
    let behind = call(json!({"op": "stream.behind", "stream": stream})).unwrap();
    assert_eq!(behind["behind"]["bytes"], 0);
    assert_eq!(held()["streams"], 1);
    for _ in 0..2 {
        call(json!({"op": "stream.close", "stream": stream})).unwrap();
    }
    assert_eq!(held(), nothing());
}
