//! The interval log of HdrHistogram: a line a second and kind of latency, values in ns.

use crate::stats::KINDS;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// One second's histograms, in the order of `KINDS`: its start and length, since the run began.
pub struct Second {
    pub start: Duration,
    pub length: Duration,
    pub latency: Vec<Histogram<u64>>,
}

/// Writes them all. Maxima are in ms, as HdrHistogram's tools show them.
pub fn write(path: &Path, began: SystemTime, seconds: &[Second]) -> Result<(), String> {
    let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(|e| told(&e))?);
    let mut serializer = V2DeflateSerializer::new();
    {
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment("[Latencies of pyrmq bench, ns; interval maxima ms]");
        builder.with_start_time(began);
        builder.with_base_time(began);
        builder.with_max_value_divisor(1_000_000.0);
        let mut log = builder
            .begin_log_with(&mut file, &mut serializer)
            .map_err(|e| told(&e))?;
        for second in seconds {
            for ((_, name), histogram) in KINDS.iter().zip(&second.latency) {
                if !histogram.is_empty() {
                    log.write_histogram(histogram, second.start, second.length, Tag::new(name))
                        .map_err(|e| told(&format!("{e:?}")))?;
                }
            }
        }
    }
    file.flush().map_err(|e| told(&e))
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
        let seconds: Vec<Second> = (0..3)
            .map(|n| {
                let mut latency: Vec<_> = KINDS.iter().map(|_| histogram()).collect();
                (0..=n).for_each(|i| latency[0].saturating_record(1000 * (i + 1)));
                Second {
                    start: Duration::from_secs(n),
                    length: Duration::from_secs(1),
                    latency,
                }
            })
            .collect();
        write(&path, SystemTime::now(), &seconds).unwrap();
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
}
