//! The border to a JVM, without one. Input: a byte that chooses, a byte for where the two files part,
//! then a log. Requests, and what is changed in tasks, come by chance from the input.
//!
//! - Nothing panics: a request, a task or a log is read, or is an error.
//! - Every address that is given leads to memory of its length, and every offset in it to its texts:
//!   all is read, as Java reads it (the sanitizer sees what is read beside it).
//! - In the end nothing is held.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_fuzz::Dice;
use pyrmq_jvm::border;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::LazyLock;

const COLUMNS: &[(&str, Form)] = &[
    ("topic", Form::Text),
    ("flag", Form::Fixed(4)),
    ("body", Form::Text),
    ("properties", Form::Pairs),
    ("brokerName", Form::Text),
    ("queueId", Form::Fixed(4)),
    ("queueOffset", Form::Fixed(8)),
    ("bornTimestamp", Form::Fixed(8)),
    ("tags", Form::Text),
    ("keys", Form::Text),
    ("msgId", Form::Text),
    ("bornHost", Form::Text),
    ("propertiesRaw", Form::Text),
];

#[derive(Clone, Copy)]
enum Form {
    Fixed(usize),
    Text,
    Pairs,
}

static STORE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("pyrmq-fuzz-jvm-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("commitlog")).unwrap();
    folder
});

/// Goes through the numbers of a batch as Java does.
struct Layout<'a> {
    numbers: &'a [i64],
    at: usize,
}

impl Layout<'_> {
    fn take(&mut self) -> i64 {
        self.at += 1;
        self.numbers[self.at - 1]
    }

    fn buffer(&mut self, needed: usize) -> &'static [u8] {
        let (address, len) = (self.take(), self.take() as usize);
        assert!(len >= needed && (needed == 0 || address != 0));
        match address {
            0 => &[],
            // SAFETY: none but that of the border, which is what is tested.
            _ => unsafe { std::slice::from_raw_parts(address as *const u8, len) },
        }
    }

    /// What all columns begin with: nulls, and the number of buffers.
    fn begin(&mut self, rows: usize, buffers: i64) {
        let nulls = self.take() as usize;
        assert!(nulls <= rows);
        assert_eq!(self.take(), buffers);
        let bits = self.buffer(if nulls > 0 { rows.div_ceil(8) } else { 0 });
        if nulls > 0 {
            let set = (0..rows).filter(|&row| bits[row / 8] >> (row % 8) & 1 != 0);
            assert_eq!(set.count(), rows - nulls);
        }
    }

    /// Offsets, and how many values they need.
    fn offsets(&mut self, rows: usize) -> Vec<usize> {
        let bytes = self.buffer(4 * (rows + 1));
        let all = bytes.chunks_exact(4).take(rows + 1);
        let all: Vec<i32> = all
            .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert!(all[0] >= 0 && all.is_sorted());
        all.into_iter().map(|offset| offset as usize).collect()
    }

    fn column(&mut self, form: Form, rows: usize, is_text: bool) {
        match form {
            Form::Fixed(width) => {
                self.begin(rows, 2);
                let values = self.buffer(rows * width);
                std::hint::black_box(values.iter().map(|&b| b as u64).sum::<u64>());
                assert_eq!(self.take(), 0);
            }
            Form::Text => {
                self.begin(rows, 3);
                let offsets = self.offsets(rows);
                let texts = self.buffer(offsets[rows]);
                for pair in offsets.windows(2) {
                    let text = &texts[pair[0]..pair[1]];
                    std::hint::black_box(text.iter().map(|&b| b as u64).sum::<u64>());
                    assert!(!is_text || std::str::from_utf8(text).is_ok());
                }
                assert_eq!(self.take(), 0);
            }
            Form::Pairs => {
                self.begin(rows, 2);
                let count = self.offsets(rows)[rows];
                assert_eq!(self.take(), 1);
                self.begin(0, 1);
                assert_eq!(self.take(), 2);
                self.column(Form::Text, count, true);
                self.column(Form::Text, count, true);
            }
        }
    }
}

/// Reads a task to its end, as far as it goes.
fn read(task: &Value, columns: &[(&str, Form)], json_text: bool) {
    let Ok(handle) = border::open(task.to_string().as_bytes()) else {
        return;
    };
    for _ in 0..200 {
        let Ok(Some(numbers)) = border::next(handle) else {
            break;
        };
        let mut layout = Layout {
            numbers: &numbers,
            at: 2,
        };
        let rows = numbers[0] as usize;
        assert!(rows > 0);
        for (name, form) in columns {
            let form = match (form, json_text) {
                (Form::Pairs, true) => Form::Text,
                _ => *form,
            };
            layout.column(form, rows, *name != "body");
        }
        assert_eq!(layout.at, numbers.len());
    }
    border::stats(handle).unwrap();
    border::close(handle).unwrap();
    border::next(handle).unwrap_err();
}

/// Another value somewhere in a task or request.
fn change(value: &mut Value, dice: &mut Dice) {
    let numbers: [i64; 8] = [0, 1, -1, 7, 300, i64::MAX, i64::MIN, 1 << 40];
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let chosen = dice.below(fields.len());
            change(fields.values_mut().nth(chosen).unwrap(), dice);
        }
        Value::Array(items) if !items.is_empty() && dice.below(8) > 0 => {
            let chosen = dice.below(items.len());
            change(&mut items[chosen], dice);
        }
        Value::String(_) if dice.below(4) > 0 => {} // mostly a path or a name
        other => {
            *other = match dice.below(6) {
                0 => Value::Null,
                1 => json!([]),
                2 => json!(dice.below(2) == 0),
                3 => json!(dice.below(4096)),
                _ => json!(numbers[dice.below(numbers.len())]),
            };
        }
    }
}

fn call(request: &Value) -> Option<Value> {
    let answer = border::call(request.to_string().as_bytes()).ok()?;
    Some(serde_json::from_slice(&answer).unwrap())
}

fuzz_target!(|data: &[u8]| {
    let [choice, part, log @ ..] = data else {
        return;
    };
    let mut dice = Dice::of(data);
    let (first, second) = log.split_at(log.len() * *part as usize / 255);
    let folder = STORE.join("commitlog");
    let names = [0, first.len()].map(|base| folder.join(format!("{base:020}")));
    std::fs::write(&names[0], first).unwrap();
    std::fs::write(&names[1], second).unwrap();
    let columns: Vec<(&str, Form)> = COLUMNS
        .iter()
        .copied()
        .filter(|_| dice.below(3) > 0)
        .collect();
    let json_text = choice & 1 != 0;
    let mut request = json!({
        "paths": [*STORE],
        "how": {
            "columns": columns.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "properties": if json_text { "json" } else { "map" },
            "on_corruption": if choice & 2 != 0 { "skip" } else { "fail" },
            "verify_crc": (["none", "tail", "all"][dice.below(3)]),
            "batch_rows": 1 + dice.below(5),
        },
        "selection": {
            "filters": {
                "limit": ([Value::Null, json!(dice.below(9))][dice.below(2)]),
                "tags": ([Value::Null, json!([null, "TagA"])][dice.below(2)]),
                "queues": ([Value::Null, json!([0, 1])][dice.below(2)]),
            },
        },
        "split_bytes": 1 + dice.below(2000),
        "fail_on_data_loss": choice & 4 != 0,
    });
    if columns.is_empty() {
        return; // the default ones would come
    }
    if choice & 8 != 0 {
        change(&mut request, &mut dice);
        request["how"]["columns"] = json!(columns.iter().map(|c| c.0).collect::<Vec<_>>());
        request["how"]["properties"] = json!(if json_text { "json" } else { "map" });
    }
    let mut tasks = Vec::new();
    if let Some(planned) = call(&json!({"op": "plan", "request": request})) {
        tasks.extend(planned["tasks"].as_array().unwrap().iter().take(8).cloned());
    }
    if choice & 16 != 0 {
        stream(&request, &mut tasks, &mut dice);
    }
    for mut task in tasks {
        if choice & 32 != 0 {
            for _ in 0..1 + dice.below(3) {
                change(&mut task, &mut dice);
            }
            // Other columns are no fault, but the reader below knows these.
            task["how"]["columns"] = request["how"]["columns"].clone();
            task["how"]["properties"] = request["how"]["properties"].clone();
        }
        if choice & 64 != 0 {
            // The log is cut between plan and read.
            let _ = std::fs::write(&names[1], &second[..dice.below(second.len() + 1)]);
        }
        read(&task, &columns, json_text);
    }
    let _ = border::call(log);
    let _ = border::open(log);
    let held = call(&json!({"op": "held"})).unwrap();
    for what in ["tasks", "streams", "batches", "bytes"] {
        assert_eq!(held[what], 0, "{what}");
    }
    for name in names {
        let _ = std::fs::remove_file(name);
    }
});

/// The tasks of some micro-batches.
fn stream(request: &Value, tasks: &mut Vec<Value>, dice: &mut Dice) {
    let Some(opened) = call(&json!({"op": "stream.open", "request": request})) else {
        return;
    };
    let ask = |op: &str, more: Value| {
        let mut asked = json!({"op": op, "stream": opened["stream"]});
        asked
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        call(&asked)
    };
    let position = |answer: Option<Value>| -> Option<Value> {
        serde_json::from_str(answer?["position"].as_str()?).ok()
    };
    if let Some(mut at) = position(ask("stream.initial", json!({}))) {
        for _ in 0..3 {
            if dice.below(8) == 0 {
                change(&mut at, dice);
            }
            let limit = json!({"rows": 1 + dice.below(5)});
            let latest = ask("stream.latest", json!({"start": at, "limit": limit}));
            let Some(next) = position(latest) else {
                break;
            };
            if let Some(found) = ask("stream.splits", json!({"start": at, "end": next})) {
                tasks.extend(found["tasks"].as_array().unwrap().iter().take(4).cloned());
            }
            at = next;
        }
        ask("stream.behind", json!({}));
    }
    ask("stream.close", json!({})).unwrap();
}
