//! Pulling: PULL_MESSAGE (11), from offset 0 of every queue to its end, again and again.
//!
//! sysFlag 4 says that the subscription comes with the request, so no heartbeat is needed; bit 2
//! (suspend) is clear, so the broker answers at once. Each place in a window walks on its own.

use crate::args::Args;
use crate::conn::Turn;
use crate::drive::{Load, Worth};
use crate::frame::{self, Answer};

const PULL_MESSAGE: i32 = 11;
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 19;
const RETRY_IMMEDIATELY: i32 = 20;
const OFFSET_MOVED: i32 = 21;

/// How the frame is put together around its three changing numbers.
struct Parts {
    to_queue: Vec<u8>,
    to_offset: Vec<u8>,
    to_opaque: Vec<u8>,
    rest: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Walk {
    queue: usize,
    offset: i64,
    /// Pulls in a row that brought nothing.
    barren: usize,
}

pub struct PullLoad {
    parts: Parts,
    walks: Vec<Walk>,
    in_flight: usize,
    queues: usize,
}

impl PullLoad {
    pub fn new(args: &Args) -> PullLoad {
        let fields = [
            ("consumerGroup", args.group.as_str()),
            ("topic", args.topic.as_str()),
            ("queueId", "@"),
            ("queueOffset", "@"),
            ("maxMsgNums", &args.max_msgs.to_string()),
            ("sysFlag", "4"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
            ("expressionType", "TAG"),
        ];
        let frame = frame::request(PULL_MESSAGE, &fields, 7, b"");
        let header = &frame[8..];
        let cut = |from: usize, mark: &str, keep: usize, drop: usize| {
            let at = frame::find(&header[from..], mark.as_bytes()).unwrap_or(0) + from;
            (header[from..at + keep].to_vec(), at + keep + drop)
        };
        let (to_queue, at) = cut(0, "\"queueId\":\"@", 11, 1);
        let (to_offset, at) = cut(at, "\"queueOffset\":\"@", 15, 1);
        let (to_opaque, at) = cut(at, "\"opaque\":7", 9, 1);
        let parts = Parts {
            to_queue,
            to_offset,
            to_opaque,
            rest: header[at..].to_vec(),
        };
        let places = args.in_flight.next_power_of_two();
        let walks = (0..args.connections * places)
            .map(|i| Walk {
                queue: (i / places + i % places) % args.queues,
                offset: 0,
                barren: 0,
            })
            .collect();
        PullLoad {
            parts,
            walks,
            in_flight: places,
            queues: args.queues,
        }
    }
}

pub fn decimal(value: i64, out: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a vector cannot fail.
    let _ = write!(out, "{value}");
}

/// Walks the store records of a body: each begins with its whole size. Returns how many.
fn records(body: &[u8]) -> Result<u64, String> {
    let (mut rest, mut count) = (body, 0);
    while let Some(head) = rest.first_chunk::<4>() {
        let size = u32::from_be_bytes(*head) as usize;
        if size < 91 || size > rest.len() {
            return Err(format!(
                "a record of {size} bytes in the {} left of a body",
                rest.len()
            ));
        }
        rest = &rest[size..];
        count += 1;
    }
    if rest.is_empty() {
        Ok(count)
    } else {
        Err("bytes after the last record of a body".into())
    }
}

impl Load for PullLoad {
    fn write(&mut self, conn: usize, slot: usize, opaque: i32, out: &mut Vec<u8>) {
        let walk = self.walks[conn * self.in_flight + slot];
        let base = out.len();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.parts.to_queue);
        decimal(walk.queue as i64, out);
        out.extend_from_slice(&self.parts.to_offset);
        decimal(walk.offset, out);
        out.extend_from_slice(&self.parts.to_opaque);
        decimal(i64::from(opaque), out);
        out.extend_from_slice(&self.parts.rest);
        let header = (out.len() - base - 8) as u32;
        out[base..base + 4].copy_from_slice(&(header + 4).to_be_bytes());
        out[base + 4..base + 8].copy_from_slice(&header.to_be_bytes());
    }

    fn judge(&mut self, conn: usize, turn: &mut Turn, answer: &Answer) -> Result<Worth, String> {
        let queues = self.queues;
        let walk = &mut self.walks[conn * self.in_flight + turn.slot];
        match answer.code {
            FOUND => {
                let count = records(answer.body)?;
                let next = answer
                    .field("nextBeginOffset")
                    .ok_or("no nextBeginOffset")?;
                let end = answer.field("maxOffset").ok_or("no maxOffset")?;
                if count == 0 || next < walk.offset + count as i64 {
                    return Err(format!(
                        "{count} messages from offset {}, yet the next offset is {next}",
                        walk.offset
                    ));
                }
                walk.barren = 0;
                walk.offset = next;
                if next >= end {
                    (walk.queue, walk.offset) = ((walk.queue + 1) % queues, 0);
                }
                Ok(Worth::Messages {
                    count,
                    bytes: answer.body.len() as u64,
                })
            }
            NOT_FOUND | RETRY_IMMEDIATELY | OFFSET_MOVED => {
                walk.barren += 1;
                if walk.barren > 2 * queues {
                    return Err(format!("the topic has no messages: {}", answer.complaint()));
                }
                // Old messages may have been deleted: 21 says where the queue begins now.
                let next = answer.field("nextBeginOffset").unwrap_or(0);
                if answer.code != NOT_FOUND && next > walk.offset {
                    walk.offset = next;
                } else {
                    (walk.queue, walk.offset) = ((walk.queue + 1) % queues, 0);
                }
                Ok(Worth::Messages { count: 0, bytes: 0 })
            }
            _ => Ok(Worth::Refused),
        }
    }

    fn buffer(&self) -> usize {
        512 << 10
    }

    fn requests_for(&self, _messages: u64) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FIRST_OPAQUE;

    #[test]
    fn writes_whole_frames() {
        let line = "pull --addr 127.0.0.1:9 --topic T --in-flight 3";
        let args = Args::parse(line.split(' ').map(String::from))
            .unwrap()
            .unwrap();
        let mut l = PullLoad::new(&args);
        l.walks[2].offset = 4711;
        let mut out = Vec::new();
        l.write(0, 2, FIRST_OPAQUE + 2, &mut out);
        assert_eq!(frame::length(&out).unwrap(), Some(out.len()));
        let text = String::from_utf8_lossy(&out[8..]);
        for part in [
            r#"{"code":11,"extFields":{"consumerGroup":"loadgen","topic":"T","queueId":"2","queueOffset":"4711","maxMsgNums":"32""#,
            r#""sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*""#,
            r#""opaque":1000000002,"serializeTypeCurrentRPC":"JSON""#,
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
    }

    #[test]
    fn counts_records() {
        let mut body = Vec::new();
        for size in [91u32, 200] {
            body.extend_from_slice(&size.to_be_bytes());
            body.resize(body.len() + size as usize - 4, 0);
        }
        assert_eq!(records(&body), Ok(2));
        assert!(records(&body[..290]).is_err());
        assert!(records(&[0, 0, 0, 0, 0]).is_err());
    }
}
