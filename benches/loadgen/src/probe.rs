//! How many messages a topic's queues hold: GET_MAX_OFFSET (30) over a connection of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::frame::{self, Reader};

const GET_MAX_OFFSET: i32 = 30;
const TOPIC_NOT_EXIST: i32 = 17;

/// What a question found: the moment, and the sum of the queues' end offsets.
#[derive(Clone, Copy, Debug)]
pub struct EndOffsets {
    pub at: Instant,
    pub messages: u64,
}

pub struct Probe {
    stream: TcpStream,
    question: Vec<u8>,
    queues: usize,
    reader: Reader,
}

impl Probe {
    pub fn open(args: &Args) -> Result<Probe, String> {
        let limit = Duration::from_secs(10);
        let stream = TcpStream::connect_timeout(&args.addr, limit)
            .and_then(|s| s.set_nodelay(true).map(|()| s))
            .and_then(|s| s.set_read_timeout(Some(limit)).map(|()| s))
            .map_err(|e| format!("connecting to {}: {e}", args.addr))?;
        let mut question = Vec::new();
        for queue in 0..args.queues {
            let id = queue.to_string();
            let fields = [
                ("topic", args.topic.as_str()),
                ("queueId", id.as_str()),
                ("committed", "true"),
            ];
            question.extend(frame::request(GET_MAX_OFFSET, &fields, queue as i32, b""));
        }
        Ok(Probe {
            stream,
            question,
            queues: args.queues,
            reader: Reader::default(),
        })
    }

    /// Asks for all queues at once and waits for the answers. A topic that is not there yet holds
    /// nothing. The moment is half-way between question and last answer.
    pub fn end_offsets(&mut self) -> Result<EndOffsets, String> {
        let failed = |e: std::io::Error| format!("asking for the end of the queues: {e}");
        let began = Instant::now();
        self.stream.write_all(&self.question).map_err(failed)?;
        let mut messages = 0;
        for _ in 0..self.queues {
            let mut frame = vec![0; 4];
            self.stream.read_exact(&mut frame).map_err(failed)?;
            let length = frame::length(&frame)?.unwrap_or(4);
            frame.resize(length, 0);
            self.stream.read_exact(&mut frame[4..]).map_err(failed)?;
            let answer = self.reader.read(&frame)?;
            messages += match answer.code {
                0 => answer.field("offset").ok_or("no offset")? as u64,
                TOPIC_NOT_EXIST => 0,
                _ => return Err(format!("GET_MAX_OFFSET: {}", answer.complaint())),
            };
        }
        Ok(EndOffsets {
            at: began + began.elapsed() / 2,
            messages,
        })
    }
}
