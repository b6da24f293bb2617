//! The engine's log lines. Its threads have no GIL: lines go to stderr in the form of pyrmq's other ones, or,
//! with `keep_log_lines`, into a bounded queue that a thread of Python empties.

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_store::local_time;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lines that wait for Python; more are lost, and counted.
const MAX_KEPT: usize = 10_000;
/// Bytes of a line that waits.
const MAX_LINE: usize = 16_384;

/// Bytes of the text of a field.
const MAX_FIELD: usize = 1024;
/// What a line may be about: `pyrmq/logs/about.py`.
const FIELDS: [&str; 4] = ["topic", "queue", "group", "path"];

/// A number, or a text.
#[derive(Debug, PartialEq, IntoPyObject)]
pub enum Field {
    Number(i64),
    Text(String),
}

type Fields = Vec<(&'static str, Field)>;

/// Time in ms, level, module of Rust, line in it, text, what it is about.
type Line = (i64, &'static str, String, u32, String, Fields);

struct Kept {
    /// Whether Python takes them.
    on: bool,
    lines: VecDeque<Line>,
    lost: u64,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    on: false,
    lines: VecDeque::new(),
    lost: 0,
});
static NEWS: Condvar = Condvar::new();

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let now = pyrmq_store::now_ms();
        let text = record.args().to_string();
        let text = match keep(now, record, text) {
            None => return,
            Some(text) => text,
        };
        let time = local_time(now).unwrap_or_default();
        let text = line(&time, record.level(), &text);
        // One write, so that lines of other threads do not come in between; where stderr takes
        // nothing (a full disk, a reader that is gone), the engine goes on.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn flush(&self) {}
}

/// Puts a line into the queue; gives its text back where nobody takes it.
fn keep(now: i64, record: &Record<'_>, mut text: String) -> Option<String> {
    let fields = fields_of(record.key_values());
    let mut kept = kept();
    if !kept.on {
        return Some(text);
    }
    if kept.lines.len() >= MAX_KEPT {
        kept.lost += 1;
        return None;
    }
    cut(&mut text, MAX_LINE);
    let place = record.line().unwrap_or(0);
    let target = record.target().to_owned();
    kept.lines
        .push_back((now, name(record.level()), target, place, text, fields));
    drop(kept);
    NEWS.notify_one();
    None
}

fn cut(text: &mut String, most: usize) {
    let end = (0..=most.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
}

/// What a line is about, as far as Python's lines have such a field.
fn fields_of(source: &dyn kv::Source) -> Fields {
    struct Found(Fields);

    impl<'kvs> VisitSource<'kvs> for Found {
        fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
            let Some(name) = FIELDS.into_iter().find(|name| *name == key.as_str()) else {
                return Ok(());
            };
            let field = match value.to_i64() {
                Some(number) => Field::Number(number),
                None => {
                    let mut text = value.to_string();
                    cut(&mut text, MAX_FIELD);
                    Field::Text(text)
                }
            };
            if field != Field::Text(String::new()) {
                self.0.push((name, field));
            }
            Ok(())
        }
    }

    let mut found = Found(Vec::new());
    let _ = source.visit(&mut found); // it never fails
    found.0
}

/// As Python's logging names it.
fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "INFO",
        Level::Debug | Level::Trace => "DEBUG",
    }
}

/// A line of text as pyrmq/logs/lines.py makes it.
fn line(time: &str, level: Level, message: &str) -> String {
    let mut text = format!("{time} {} pyrmq.engine: ", name(level));
    for c in message.chars() {
        match c as u32 {
            // Controls, marks of bidirectional text and others without a shape: a terminal obeys them.
            code @ (0..0x20 | 0x7f..0xa0 | 0xad) => text += &format!("\\x{code:02x}"),
            code @ (0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff) => {
                text += &format!("\\u{code:04x}");
            }
            _ => text.push(c),
        }
    }
    text.push('\n');
    text
}

/// Once for the process: warnings and errors, until `set_log_level`.
pub fn install() {
    if log::set_logger(&Lines).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

/// What the engine logs: `debug`, `info`, `warning` or `error`, and what is worse.
#[pyfunction]
pub fn set_log_level(level: &str) -> PyResult<()> {
    log::set_max_level(match level {
        "debug" => LevelFilter::Debug,
        "info" => LevelFilter::Info,
        "warning" => LevelFilter::Warn,
        "error" => LevelFilter::Error,
        _ => return Err(PyValueError::new_err(format!("no log level {level:?}"))),
    });
    Ok(())
}

/// Whether lines are kept for `take_log_lines`, or go to stderr. Whoever takes them is woken.
#[pyfunction]
pub fn keep_log_lines(on: bool) {
    kept().on = on;
    NEWS.notify_all();
}

/// Waits up to `milliseconds` for lines: what there is, and how many were lost since the last call.
#[pyfunction]
pub fn take_log_lines(py: Python<'_>, milliseconds: u64) -> (Vec<Line>, u64) {
    py.detach(|| {
        let kept = kept();
        let (mut kept, _) = NEWS
            .wait_timeout_while(kept, Duration::from_millis(milliseconds), |kept| {
                kept.on && kept.lines.is_empty()
            })
            .unwrap_or_else(PoisonError::into_inner);
        let lost = std::mem::take(&mut kept.lost);
        (kept.lines.drain(..).collect(), lost)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_is_about() {
        let long = "x".repeat(MAX_FIELD - 1) + "\u{fc}";
        let pairs: [(&str, Value<'_>); 6] = [
            ("topic", Value::from_display(&"orders")),
            ("queue", Value::from(3u32)),
            ("group", Value::from(long.as_str())),
            ("path", Value::from("")),
            ("other", Value::from(1)),
            ("queue", Value::from(-1i64)),
        ];
        let found = fields_of(&&pairs[..]);
        let text = |text: &str| Field::Text(text.to_owned());
        let want = [
            ("topic", text("orders")),
            ("queue", Field::Number(3)),
            ("group", text(&long[..MAX_FIELD - 1])),
            ("queue", Field::Number(-1)),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn a_line_is_one_line() {
        let made = line(
            "T",
            Level::Warn,
            "topic a\nb\u{1b}[2J \u{202e}x \u{fc}\u{7f}",
        );
        assert_eq!(
            made,
            "T WARNING pyrmq.engine: topic a\\x0ab\\x1b[2J \\u202ex \u{fc}\\x7f\n"
        );
    }
}
