//! The interval log of HdrHistogram: a line a second and kind of latency, values in ns.

use crate::stats::KINDS;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// One second's histograms, in the order of `KINDS`: its start and length, since the run began.
pub struct Second {
    /// When the run began.
    pub began: SystemTime,
    pub start: Duration,
    pub length: Duration,
    pub latency: Vec<Histogram<u64>>,
}

/// A log that a thread of its own writes as the run goes on, so that memory is bounded and what was
/// written is there whatever happens. Maxima are in ms, as HdrHistogram's tools show them.
pub struct Log {
    seconds: Option<SyncSender<Second>>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

/// Seconds that wait for a slow disk before the run waits too.
const MOST_WAITING: usize = 16;

impl Log {
    /// Makes the file. An error if that is not possible.
    pub fn create(path: &Path) -> Result<Log, String> {
        let told = |e: std::io::Error| format!("--hdr {}: {e}", path.display());
        let file = File::create(path).map_err(told)?;
        let (seconds, incoming) = sync_channel(MOST_WAITING);
        let path = path.to_path_buf();
        let thread = std::thread::Builder::new()
            .name("bench-hdr".into())
            .spawn(move || {
                write(file, &incoming).map_err(|e| format!("--hdr {}: {e}", path.display()))
            })
            .map_err(|e| format!("a thread: {e}"))?;
        Ok(Log {
            seconds: Some(seconds),
            thread: Some(thread),
        })
    }

    /// One more second. `false`: the file can no longer be written; `finish` says why.
    pub fn add(&self, second: Second) -> bool {
        match &self.seconds {
            Some(seconds) => seconds.send(second).is_ok(),
            None => false,
        }
    }

    /// Writes what is left. An error if the file is not complete.
    pub fn finish(&mut self) -> Result<(), String> {
        self.seconds = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err("the thread that writes --hdr failed: please report this".into()),
            None => Ok(()),
        }
    }
}

fn write(file: File, seconds: &Receiver<Second>) -> Result<(), String> {
    let told = |e: &dyn std::fmt::Debug| format!("{e:?}");
    // Nothing is known of the start until the first second: the head waits for it.
    let Ok(mut second) = seconds.recv() else {
        return Ok(());
    };
    let mut file = LineWriter::new(file);
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("[Latencies of pyrmq bench, ns; interval maxima ms]");
    builder.with_start_time(second.began);
    builder.with_base_time(second.began);
    builder.with_max_value_divisor(1_000_000.0);
    {
        let mut log = builder
            .begin_log_with(&mut file, &mut serializer)
            .map_err(|e| e.to_string())?;
        loop {
            for ((_, name), histogram) in KINDS.iter().zip(&second.latency) {
                if !histogram.is_empty() {
                    log.write_histogram(histogram, second.start, second.length, Tag::new(name))
                        .map_err(|e| told(&e))?;
                }
            }
            match seconds.recv() {
                Ok(next) => second = next,
                Err(_) => break,
            }
        }
    }
    file.flush().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn a_reader_finds_each_second() {
        let path = std::env::temp_dir().join(format!("pyrmq-bench-{}.hdr", std::process::id()));
        let began = SystemTime::now();
        let seconds: Vec<Second> = (0..3)
            .map(|n| {
                let mut latency: Vec<_> = KINDS.iter().map(|_| histogram()).collect();
                (0..=n).for_each(|i| latency[0].saturating_record(1000 * (i + 1)));
                Second {
                    began,
                    start: Duration::from_secs(n),
                    length: Duration::from_secs(1),
                    latency,
                }
            })
            .collect();
        let mut log = Log::create(&path).unwrap();
        for second in seconds {
            assert!(log.add(second));
        }
        log.finish().unwrap();
        let text = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(line) = entry.unwrap() {
                assert_eq!(
                    line.tag().map(|t| t.as_str().to_string()),
                    Some("request".into())
                );
                // The log's text is base64 of the deflated histogram.
                assert!(line.encoded_histogram().len() > 20);
                counts.push(line.start_timestamp());
            }
        }
        let _: fn() -> Deserializer = Deserializer::new;
        assert_eq!(counts, [0, 1, 2].map(Duration::from_secs));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told() {
        assert!(Log::create(Path::new("/proc/none.hdr")).is_err());
        let mut log = Log::create(Path::new("/dev/full")).unwrap();
        let mut latency: Vec<_> = KINDS.iter().map(|_| histogram()).collect();
        latency[0].saturating_record(1000);
        let second = Second {
            began: SystemTime::now(),
            start: Duration::ZERO,
            length: Duration::from_secs(1),
            latency,
        };
        log.add(second);
        assert!(log.finish().unwrap_err().contains("No space left"));
    }
}
