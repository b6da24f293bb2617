//! The command line.

use std::net::{SocketAddr, ToSocketAddrs};

pub const USAGE: &str = "\
usage: loadgen MODE --addr HOST:PORT [options]

modes
  send         SEND_MESSAGE_V2 (310), a sliding window per connection
  send-batch   SEND_BATCH_MESSAGE (320), --batch messages a request
  pull         PULL_MESSAGE (11), walks every queue from offset 0 to its end, again and again
  transaction  a half (310 with TRAN_MSG), on its answer END_TRANSACTION (37), one-way as real
               clients send it; what was delivered is read from the topic's queues
  idle         opens --connections that say nothing and holds them for --seconds

options
  --connections C   connections (1)
  --in-flight W     requests under way on each connection (1)
  --body BYTES      body of a message (1024)
  --batch K         messages in a batch (32)
  --max-msgs M      messages asked for by a pull (32)
  --count N         stop after N messages (pull, send) ...
  --seconds S       ... or after S seconds, whichever is first (3 when neither is given)
  --warmup S        seconds of load before the measured window opens (0)
  --topic NAME      (LoadgenTopic)
  --group NAME      producer or consumer group (loadgen)
  --queues Q        queues used round-robin, 1 to 10 (4)
  --stall S         give up when nothing is answered for S seconds (15)
  --rollback P      transaction: percent of the transactions that are rolled back (0)
  --two-way         transaction: wait for the answer to END_TRANSACTION
  --settle S        transaction: wait so long for what was not delivered when the load ended (10)
  --watch-pid PID   report the CPU time that process used in the measured window
  --stdin           idle: stop when stdin ends, too
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Send,
    SendBatch,
    Pull,
    Transaction,
    Idle,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Send => "send",
            Mode::SendBatch => "send-batch",
            Mode::Pull => "pull",
            Mode::Transaction => "transaction",
            Mode::Idle => "idle",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Args {
    pub mode: Mode,
    pub addr: SocketAddr,
    pub connections: usize,
    pub in_flight: usize,
    pub body: usize,
    pub batch: usize,
    pub max_msgs: u32,
    pub count: Option<u64>,
    pub seconds: Option<f64>,
    pub warmup: f64,
    pub topic: String,
    pub group: String,
    pub queues: usize,
    pub stall: f64,
    pub watch_pid: Option<u32>,
    pub stdin: bool,
    pub rollback: u64,
    pub two_way: bool,
    pub settle: f64,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name}: not a number of the right kind: {text}"))
}

fn within<T: PartialOrd + std::fmt::Display>(name: &str, v: T, lo: T, hi: T) -> Result<T, String> {
    if v < lo || v > hi {
        return Err(format!("{name} must be {lo} to {hi}, not {v}"));
    }
    Ok(v)
}

impl Args {
    /// `None` when help was asked for.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Option<Args>, String> {
        let mut words = words;
        let mode = match words.next().as_deref() {
            Some("send") => Mode::Send,
            Some("send-batch") => Mode::SendBatch,
            Some("pull") => Mode::Pull,
            Some("transaction") => Mode::Transaction,
            Some("idle") => Mode::Idle,
            Some("-h" | "--help") => return Ok(None),
            Some(other) => return Err(format!("unknown mode: {other}")),
            None => return Err("a mode is missing".into()),
        };
        let mut addr = None;
        let mut a = Args {
            mode,
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            connections: 1,
            in_flight: 1,
            body: 1024,
            batch: 32,
            max_msgs: 32,
            count: None,
            seconds: None,
            warmup: 0.0,
            topic: "LoadgenTopic".into(),
            group: "loadgen".into(),
            queues: 4,
            stall: 15.0,
            watch_pid: None,
            stdin: false,
            rollback: 0,
            two_way: false,
            settle: 10.0,
        };
        while let Some(name) = words.next() {
            match name.as_str() {
                "-h" | "--help" => return Ok(None),
                "--stdin" => {
                    a.stdin = true;
                    continue;
                }
                "--two-way" => {
                    a.two_way = true;
                    continue;
                }
                _ => {}
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{name}: its value is missing"))?;
            match name.as_str() {
                "--addr" => addr = Some(value),
                "--connections" => {
                    a.connections = within(&name, number(&name, &value)?, 1, 60_000)?
                }
                "--in-flight" => a.in_flight = within(&name, number(&name, &value)?, 1, 65_536)?,
                "--body" => a.body = within(&name, number(&name, &value)?, 0, 4 << 20)?,
                "--batch" => a.batch = within(&name, number(&name, &value)?, 1, 4096)?,
                "--max-msgs" => a.max_msgs = within(&name, number(&name, &value)?, 1, 1024)?,
                "--count" => a.count = Some(within(&name, number(&name, &value)?, 1, u64::MAX)?),
                "--seconds" => {
                    a.seconds = Some(within(&name, number(&name, &value)?, 0.01, 3600.0)?)
                }
                "--warmup" => a.warmup = within(&name, number(&name, &value)?, 0.0, 3600.0)?,
                "--topic" => a.topic = value,
                "--group" => a.group = value,
                "--queues" => a.queues = within(&name, number(&name, &value)?, 1, 10)?,
                "--stall" => a.stall = within(&name, number(&name, &value)?, 0.1, 600.0)?,
                "--rollback" => a.rollback = within(&name, number(&name, &value)?, 0, 100)?,
                "--settle" => a.settle = within(&name, number(&name, &value)?, 0.0, 600.0)?,
                "--watch-pid" => a.watch_pid = Some(number(&name, &value)?),
                _ => return Err(format!("unknown option: {name}")),
            }
        }
        let addr = addr.ok_or("--addr is missing")?;
        a.addr = addr
            .to_socket_addrs()
            .map_err(|e| format!("--addr {addr}: {e}"))?
            .next()
            .ok_or_else(|| format!("--addr {addr}: no such address"))?;
        if a.count.is_none() && a.seconds.is_none() {
            a.seconds = Some(3.0);
        }
        Ok(Some(a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Args>, String> {
        Args::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_a_full_line() {
        let a = parse("send --addr 127.0.0.1:9 --connections 8 --in-flight 128 --count 5")
            .unwrap()
            .unwrap();
        assert_eq!((a.mode, a.connections, a.in_flight), (Mode::Send, 8, 128));
        assert_eq!((a.count, a.seconds), (Some(5), None));
    }

    #[test]
    fn tells_what_is_wrong() {
        for (line, word) in [
            ("", "mode"),
            ("fly", "fly"),
            ("send", "--addr"),
            ("send --addr", "value"),
            ("send --addr 127.0.0.1:9 --queues 11", "1 to 10"),
            ("send --addr 127.0.0.1:9 --body x", "--body"),
            ("send --addr 127.0.0.1:9 --wat 1", "--wat"),
        ] {
            let told = parse(line).unwrap_err();
            assert!(told.contains(word), "{line}: {told}");
        }
        assert!(parse("pull --help").unwrap().is_none());
    }
}
