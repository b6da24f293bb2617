//! Transactions: a half (SEND_MESSAGE_V2 with TRAN_MSG), and on its answer END_TRANSACTION (37).
//!
//! END_TRANSACTION is one-way, as real clients send it, and goes out together with the next half of
//! the same place; with --two-way the place waits for its answer first. A one-way request says
//! nothing about its fate, so what counts is read from the real topic: the end of its queues when
//! the measured window opens and closes, and after the run until all commits are there.

use std::time::{Duration, Instant};

use crate::args::Args;
use crate::conn::Turn;
use crate::drive::{Load, Worth};
use crate::frame::{self, Answer, FIRST_OPAQUE};
use crate::measure::Histogram;
use crate::probe::{EndOffsets, Probe};
use crate::pull::decimal;
use crate::send::{body, first_key, now_ms, put_decimal, put_hex, COUNTING};

const SEND_MESSAGE_V2: i32 = 310;
const HEART_BEAT: i32 = 34;
const END_TRANSACTION: i32 = 37;
const CHECK_TRANSACTION_STATE: i32 = 39;
const COMMIT: i64 = 8;
const ROLLBACK: i64 = 12;
/// Opaques of heartbeats and of one-way requests; below those of the window.
const GREETING: i32 = FIRST_OPAQUE - 1;
const ENDING: i32 = FIRST_OPAQUE - 2;
/// Nothing more is expected when nothing was delivered for so long.
const PATIENCE: Duration = Duration::from_secs(3);

/// The half, laid out once: what is written over, and where.
struct Half {
    template: Vec<u8>,
    opaque_at: usize,
    queue_at: usize,
    born_at: usize,
    key_at: usize,
}

impl Half {
    fn new(args: &Args) -> Half {
        let key = first_key();
        let properties = format!(
            "TRAN_MSG\u{1}true\u{2}UNIQ_KEY\u{1}{key}\u{2}WAIT\u{1}true\u{2}PGROUP\u{1}{}\u{2}",
            args.group
        );
        let born = now_ms().to_string();
        let fields = [
            ("a", args.group.as_str()),
            ("b", args.topic.as_str()),
            ("c", "TBW102"),
            ("d", &args.queues.to_string()),
            ("e", "0"),
            ("f", "4"),
            ("g", &born),
            ("h", "0"),
            ("i", &properties),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
            ("n", "broker-a"),
        ];
        let payload = body(args.body);
        let template = frame::request(SEND_MESSAGE_V2, &fields, FIRST_OPAQUE, &payload);
        let header = &template[..template.len() - payload.len()];
        let after = |text: &str| {
            let at = frame::find(header, text.as_bytes());
            at.map_or(0, |at| at + text.len())
        };
        Half {
            opaque_at: after("\"opaque\":"),
            queue_at: after("\"e\":\""),
            born_at: after("\"g\":\""),
            key_at: after(&key) - COUNTING,
            template,
        }
    }

    fn write(&self, opaque: i32, queue: usize, key: u64, out: &mut Vec<u8>) {
        let base = out.len();
        out.extend_from_slice(&self.template);
        let frame = &mut out[base..];
        put_decimal(
            opaque as u64,
            &mut frame[self.opaque_at..self.opaque_at + 10],
        );
        frame[self.queue_at] = b'0' + queue as u8;
        put_decimal(now_ms(), &mut frame[self.born_at..self.born_at + 13]);
        put_hex(key, &mut frame[self.key_at..self.key_at + COUNTING]);
    }
}

/// END_TRANSACTION: the header's text between its changing values.
struct End {
    pieces: Vec<Vec<u8>>,
    /// The digits of each UNIQ_KEY that name this process.
    name: Vec<u8>,
}

/// What stands for a changing value while the header is laid out: in the order of `End::write`.
const MARKS: [&str; 6] = [
    "@table@",
    "@log@",
    "@state@",
    "@msg@",
    "@tran@",
    "999999999",
];

impl End {
    fn new(args: &Args) -> End {
        let fields = [
            ("topic", args.topic.as_str()),
            ("producerGroup", args.group.as_str()),
            ("tranStateTableOffset", MARKS[0]),
            ("commitLogOffset", MARKS[1]),
            ("commitOrRollback", MARKS[2]),
            ("fromTransactionCheck", "false"),
            ("msgId", MARKS[3]),
            ("transactionId", MARKS[4]),
            ("bname", "broker-a"),
        ];
        let lay_out = if args.two_way {
            frame::request
        } else {
            frame::oneway
        };
        let frame = lay_out(END_TRANSACTION, &fields, 999_999_999, b"");
        let mut rest = &frame[8..];
        let mut pieces = Vec::new();
        for mark in MARKS {
            let at = frame::find(rest, mark.as_bytes()).unwrap_or(0);
            pieces.push(rest[..at].to_vec());
            rest = &rest[at + mark.len()..];
        }
        pieces.push(rest.to_vec());
        let key = first_key();
        End {
            pieces,
            name: key[..key.len() - COUNTING].into(),
        }
    }

    fn key(&self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        let at = out.len();
        out.resize(at + COUNTING, 0);
        put_hex(key, &mut out[at..]);
    }

    fn write(&self, half: &Prepared, state: i64, opaque: i32, out: &mut Vec<u8>) {
        let base = out.len();
        out.extend_from_slice(&[0; 8]);
        for (i, piece) in self.pieces.iter().enumerate() {
            out.extend_from_slice(piece);
            match i {
                0 => decimal(half.queue_offset, out),
                1 => decimal(half.log_offset, out),
                2 => decimal(state, out),
                3 | 4 => self.key(half.key, out),
                5 => decimal(i64::from(opaque), out),
                _ => {}
            }
        }
        let header = (out.len() - base - 8) as u32;
        out[base..base + 4].copy_from_slice(&(header + 4).to_be_bytes());
        out[base + 4..base + 8].copy_from_slice(&header.to_be_bytes());
    }
}

/// A half that was acknowledged.
struct Prepared {
    key: u64,
    queue_offset: i64,
    log_offset: i64,
}

impl Prepared {
    fn read(answer: &Answer, key: u64) -> Option<Prepared> {
        let id = answer.text("msgId")?;
        let digits = std::str::from_utf8(id.get(id.len().checked_sub(16)?..)?).ok()?;
        Some(Prepared {
            key,
            queue_offset: answer.field("queueOffset")?,
            log_offset: i64::from_str_radix(digits, 16).ok()?,
        })
    }
}

/// A place of a window.
#[derive(Clone, Copy, Default)]
struct Place {
    key: u64,
    /// END_TRANSACTION is under way, not the half.
    ending: bool,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    commits: u64,
    rollbacks: u64,
    checks: u64,
    dropped: u64,
}

pub struct TransactionLoad {
    half: Half,
    end: End,
    places: Vec<Place>,
    in_flight: usize,
    queues: usize,
    next_queue: usize,
    next_key: u64,
    rollback: u64,
    /// Hundredths of a transaction that the next one adds to those to roll back.
    owed: u64,
    two_way: bool,
    bytes: u64,
    group: String,
    counts: Counts,
    first_drop: Option<String>,
    ending: Histogram,
    probe: Probe,
    start: EndOffsets,
    opened: (EndOffsets, Counts),
    closed: (EndOffsets, Counts),
    last: EndOffsets,
}

impl TransactionLoad {
    /// EndOffsetss at the topic before anything is sent.
    pub fn new(args: &Args) -> Result<TransactionLoad, String> {
        let mut probe = Probe::open(args)?;
        let start = probe.end_offsets()?;
        let in_flight = args.in_flight.next_power_of_two();
        Ok(TransactionLoad {
            half: Half::new(args),
            end: End::new(args),
            places: vec![Place::default(); args.connections * in_flight],
            in_flight,
            queues: args.queues,
            next_queue: 0,
            next_key: 0,
            rollback: args.rollback,
            owed: 0,
            two_way: args.two_way,
            bytes: args.body as u64,
            group: args.group.clone(),
            counts: Counts::default(),
            first_drop: None,
            ending: Histogram::new(),
            probe,
            start,
            opened: (start, Counts::default()),
            closed: (start, Counts::default()),
            last: start,
        })
    }

    /// The state of the next transaction.
    fn decide(&mut self) -> i64 {
        self.owed += self.rollback;
        if self.owed >= 100 {
            self.owed -= 100;
            self.counts.rollbacks += 1;
            ROLLBACK
        } else {
            self.counts.commits += 1;
            COMMIT
        }
    }

    fn delivered(&self, now: EndOffsets) -> u64 {
        now.messages.saturating_sub(self.start.messages)
    }

    pub fn outcome(&self) -> Outcome {
        let (opened, closed) = (&self.opened, &self.closed);
        let seconds = (closed.0.at - opened.0.at).as_secs_f64().max(1e-9);
        let ends = |c: &Counts| c.commits + c.rollbacks;
        let delivered = closed.0.messages.saturating_sub(opened.0.messages);
        Outcome {
            two_way: self.two_way,
            ends: ends(&closed.1) - ends(&opened.1),
            rollbacks: closed.1.rollbacks - opened.1.rollbacks,
            delivered,
            rate: delivered as f64 / seconds,
            all_commits: self.counts.commits,
            at_close: self.delivered(closed.0),
            in_the_end: self.delivered(self.last),
            settling: (self.last.at - closed.0.at).as_secs_f64(),
            checks: self.counts.checks,
            dropped: self.counts.dropped,
            first_drop: self.first_drop.clone(),
            p50_us: self.ending.percentile_us(0.5),
            p99_us: self.ending.percentile_us(0.99),
        }
    }
}

impl Load for TransactionLoad {
    fn write(&mut self, conn: usize, slot: usize, opaque: i32, out: &mut Vec<u8>) {
        self.places[conn * self.in_flight + slot] = Place {
            key: self.next_key,
            ending: false,
        };
        self.half.write(opaque, self.next_queue, self.next_key, out);
        self.next_queue = (self.next_queue + 1) % self.queues;
        self.next_key += 1;
    }

    fn judge(&mut self, conn: usize, turn: &mut Turn, answer: &Answer) -> Result<Worth, String> {
        let index = conn * self.in_flight + turn.slot;
        let Place { key, ending } = self.places[index];
        if answer.code != 0 {
            return Ok(Worth::Refused);
        }
        if ending {
            self.ending.add(turn.took);
            return Ok(Worth::Aside);
        }
        let Some(half) = Prepared::read(answer, key) else {
            return Err("a half was answered without msgId or queueOffset".into());
        };
        let state = self.decide();
        let opaque = if self.two_way {
            self.places[index].ending = true;
            turn.again()
        } else {
            ENDING
        };
        self.end.write(&half, state, opaque, turn.out);
        Ok(Worth::Messages {
            count: 1,
            bytes: self.bytes,
        })
    }

    fn unasked(&mut self, answer: &Answer) -> Result<(), String> {
        match (answer.is_request(), answer.code, answer.opaque) {
            (true, CHECK_TRANSACTION_STATE, _) => self.counts.checks += 1,
            (false, 0, GREETING) => {}
            // Apache RocketMQ answers a one-way request after all when it drops it.
            (false, 1.., ENDING) => {
                self.counts.dropped += 1;
                self.first_drop.get_or_insert_with(|| answer.complaint());
            }
            _ => return Err(format!("nobody asked for this: {}", answer.complaint())),
        }
        Ok(())
    }

    fn greet(&mut self, conn: usize, out: &mut Vec<u8>) {
        let body = format!(
            "{{\"clientID\":\"127.0.0.1@loadgen-{}-{conn}\",\"consumerDataSet\":[],\
             \"heartbeatFingerprint\":0,\"producerDataSet\":[{{\"groupName\":{}}}],\
             \"withoutSub\":false}}",
            std::process::id(),
            frame::quoted(&self.group),
        );
        out.extend(frame::request(HEART_BEAT, &[], GREETING, body.as_bytes()));
    }

    fn opens(&mut self) -> Result<(), String> {
        self.opened = (self.probe.end_offsets()?, self.counts);
        self.ending = Histogram::new();
        Ok(())
    }

    fn closes(&mut self) -> Result<(), String> {
        self.closed = (self.probe.end_offsets()?, self.counts);
        self.last = self.closed.0;
        Ok(())
    }

    /// True as well when it is no use to wait any longer.
    fn settled(&mut self) -> Result<bool, String> {
        let now = self.probe.end_offsets()?;
        if now.messages > self.last.messages {
            self.last = now;
        }
        let complete = self.delivered(self.last) >= self.counts.commits;
        Ok(complete || Instant::now() - self.last.at > PATIENCE)
    }

    fn buffer(&self) -> usize {
        64 << 10
    }

    fn requests_for(&self, messages: u64) -> Option<u64> {
        Some(messages)
    }
}

/// What became of the transactions.
pub struct Outcome {
    two_way: bool,
    /// END_TRANSACTIONs sent in the measured window, and messages delivered in it.
    ends: u64,
    rollbacks: u64,
    delivered: u64,
    rate: f64,
    /// Of the whole run: commits sent, what was delivered when the window closed and at last.
    all_commits: u64,
    at_close: u64,
    in_the_end: u64,
    settling: f64,
    checks: u64,
    dropped: u64,
    first_drop: Option<String>,
    p50_us: f64,
    p99_us: f64,
}

impl Outcome {
    /// Every commit was delivered, once.
    pub fn complete(&self) -> bool {
        self.in_the_end == self.all_commits
    }

    pub fn json(&self) -> String {
        let latency = if self.two_way {
            format!(
                ",\"end_p50_us\":{:.1},\"end_p99_us\":{:.1}",
                self.p50_us, self.p99_us
            )
        } else {
            String::new()
        };
        format!(
            ",\"two_way\":{},\"ends\":{},\"rollbacks\":{},\"delivered\":{},\
             \"delivered_rate\":{:.1},\"all_commits\":{},\"delivered_late\":{},\"missing\":{},\
             \"repeated\":{},\"settle_seconds\":{:.3},\"checks\":{},\"dropped\":{},\
             \"first_drop\":{}{latency}",
            self.two_way,
            self.ends,
            self.rollbacks,
            self.delivered,
            self.rate,
            self.all_commits,
            self.in_the_end.saturating_sub(self.at_close),
            self.all_commits.saturating_sub(self.in_the_end),
            self.in_the_end.saturating_sub(self.all_commits),
            self.settling,
            self.checks,
            self.dropped,
            self.first_drop
                .as_deref()
                .map_or("null".into(), frame::quoted),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(more: &str) -> Args {
        let line = format!("transaction --addr 127.0.0.1:9 --topic T --group G --body 3 {more}");
        Args::parse(line.split_whitespace().map(String::from))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn a_half_is_patched() {
        let half = Half::new(&args(""));
        let mut out = Vec::new();
        let before = now_ms();
        half.write(FIRST_OPAQUE + 77, 3, 0xAB, &mut out);
        assert_eq!(frame::length(&out).unwrap(), Some(out.len()));
        let text = String::from_utf8_lossy(&out[8..]);
        for part in [
            r#""b":"T","#,
            r#""e":"3","f":"4","g":""#,
            r#"TRAN_MSG\u0001true\u0002UNIQ_KEY\u0001"#,
            r#"00000000000000AB\u0002WAIT\u0001true\u0002PGROUP\u0001G\u0002""#,
            r#""opaque":1000000077,"#,
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
        let born: u64 = text[text.find(r#""g":""#).unwrap() + 5..][..13]
            .parse()
            .unwrap();
        assert!((before..=now_ms()).contains(&born));
    }

    #[test]
    fn an_end_names_its_half() {
        let half = Prepared {
            key: 0xCD,
            queue_offset: 12_345,
            log_offset: 1 << 40,
        };
        for (more, flag) in [("", r#""flag":2,"#), ("--two-way", r#""flag":0,"#)] {
            let mut out = Vec::new();
            End::new(&args(more)).write(&half, ROLLBACK, 1_000_000_009, &mut out);
            assert_eq!(frame::length(&out).unwrap(), Some(out.len()));
            let text = String::from_utf8_lossy(&out[8..]);
            let key = format!("{}00000000000000CD", &first_key()[..12]);
            let both = format!(r#""msgId":"{key}","transactionId":"{key}","#);
            for part in [
                r#""topic":"T","producerGroup":"G","tranStateTableOffset":"12345","#,
                r#""commitLogOffset":"1099511627776","commitOrRollback":"12","#,
                &both,
                r#""opaque":1000000009,"#,
                flag,
            ] {
                assert!(text.contains(part), "{part} not in {text}");
            }
        }
    }
}
