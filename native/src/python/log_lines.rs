//! The engine's log lines, on stderr and in the form of pyrmq's other ones. The engine's threads have no
//! GIL, so they do not go through Python's logging.

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_store::local_time;
use std::io::Write;

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let time = local_time(pyrmq_store::now_ms()).unwrap_or_default();
            let text = line(&time, record.level(), &record.args().to_string());
            // One write, so that lines of other threads do not come in between; where stderr takes
            // nothing (a full disk, a reader that is gone), the engine goes on.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// A line as pyrmq/logs/lines.py makes it.
fn line(time: &str, level: Level, message: &str) -> String {
    let level = match level {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "INFO",
        Level::Debug | Level::Trace => "DEBUG",
    };
    let mut text = format!("{time} {level} pyrmq.engine: ");
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
    if log::set_logger(&Stderr).is_ok() {
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

#[cfg(test)]
mod tests {
    use super::*;

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
