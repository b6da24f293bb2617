//! The binary against a broker of a few lines, honest and dishonest.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;

/// What a fake broker makes of one request: (code, opaque of the answer, body).
type Manner = fn(code: i32, opaque: i64, header: &str) -> (i32, i64, Vec<u8>, &'static str);

fn number_after(text: &str, mark: &str) -> i64 {
    let at = text
        .find(mark)
        .unwrap_or_else(|| panic!("{mark} not in {text}"))
        + mark.len();
    let digits: String = text[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

fn answer(manner: Manner, header: &str) -> Vec<u8> {
    let code = number_after(header, "\"code\":") as i32;
    let (code, opaque, body, fields) = manner(code, number_after(header, "\"opaque\":"), header);
    frame(code, 1, opaque, fields, &body)
}

fn frame(code: i32, flag: i32, opaque: i64, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{{\"code\":{code},\"extFields\":{{{fields}}},\"flag\":{flag},\"language\":\"JAVA\",\
         \"opaque\":{opaque},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}"
    );
    let mut out = ((4 + head.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    out.extend_from_slice(&(head.len() as u32).to_be_bytes());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out
}

/// Serves one connection until it ends: answers all whole requests of a read in reverse order,
/// in pieces of `piece` bytes.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> Vec<u8>, piece: usize) {
    let (mut input, mut buffer) = (Vec::new(), vec![0; 1 << 18]);
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        input.extend_from_slice(&buffer[..n]);
        let (mut at, mut answers) = (0, Vec::new());
        while input.len() - at >= 8 {
            let total = u32::from_be_bytes(input[at..at + 4].try_into().unwrap()) as usize;
            if input.len() - at < 4 + total {
                break;
            }
            let length = u32::from_be_bytes(input[at + 4..at + 8].try_into().unwrap()) as usize;
            answers.push(answer(
                std::str::from_utf8(&input[at + 8..at + 8 + length]).unwrap(),
            ));
            at += 4 + total;
        }
        input.drain(..at);
        answers.reverse();
        for part in answers.concat().chunks(piece) {
            if stream.write_all(part).is_err() {
                return;
            }
        }
    }
}

fn start(manner: Manner, piece: usize) -> SocketAddr {
    start_with(move |header| answer(manner, header), piece)
}

fn start_with(
    answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    piece: usize,
) -> SocketAddr {
    let answer = Arc::new(answer);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            thread::spawn(move || serve(stream, &*answer, piece));
        }
    });
    addr
}

fn loadgen(addr: SocketAddr, line: &str) -> Output {
    let mut words = line.split(' ');
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .arg(words.next().unwrap())
        .args(["--addr", &addr.to_string()])
        .args(words)
        .output()
        .unwrap()
}

fn good(out: &Output) -> String {
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout.clone()).unwrap()
}

fn stored(_code: i32, opaque: i64, _header: &str) -> (i32, i64, Vec<u8>, &'static str) {
    (
        0,
        opaque,
        Vec::new(),
        "\"queueId\":\"0\",\"queueOffset\":\"0\"",
    )
}

#[test]
fn sends_exactly_what_was_asked_for() {
    let addr = start(stored, usize::MAX);
    for line in [
        "send --count 5000 --connections 3 --in-flight 7",
        "send --count 5000 --in-flight 300 --body 0",
        "send-batch --count 5000 --batch 10 --in-flight 4 --connections 2",
    ] {
        let text = good(&loadgen(addr, line));
        assert_eq!(number_after(&text, "\"messages\":"), 5000, "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn answers_may_come_in_crumbs() {
    let addr = start(stored, 3);
    let text = good(&loadgen(addr, "send --count 300 --in-flight 8"));
    assert_eq!(number_after(&text, "\"messages\":"), 300);
}

#[test]
fn measures_after_warming_up() {
    let addr = start(stored, usize::MAX);
    let watch = format!(
        "send --warmup 0.2 --seconds 0.3 --in-flight 8 --watch-pid {}",
        std::process::id()
    );
    let text = good(&loadgen(addr, &watch));
    assert!(text.contains("\"seconds\":0.3"), "{text}");
    assert!(!text.contains("\"watched_cpu_seconds\":null"), "{text}");
}

#[test]
fn refusals_are_counted_and_told() {
    let addr = start(|_, opaque, _| (2, opaque, Vec::new(), ""), usize::MAX);
    let out = loadgen(addr, "send --count 10");
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text.contains("\"messages\":0,\"requests\":10") && text.contains("\"code 2\""),
        "{text}"
    );
}

#[test]
fn a_wrong_opaque_ends_the_run() {
    let addr = start(|_, opaque, _| (0, opaque + 1, Vec::new(), ""), usize::MAX);
    let out = loadgen(addr, "send --count 10");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("nobody asked"),
        "{out:?}"
    );
}

#[test]
fn silence_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let out = loadgen(listener.local_addr().unwrap(), "send --count 1 --stall 0.3");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("nothing was answered"),
        "{out:?}"
    );
}

/// Each of four queues holds 100 records of 1,100 bytes.
fn shelf(code: i32, opaque: i64, header: &str) -> (i32, i64, Vec<u8>, &'static str) {
    assert_eq!(code, 11);
    let from = number_after(header, "\"queueOffset\":\"");
    assert!(
        number_after(header, "\"queueId\":\"") < 4 && from < 100,
        "{header}"
    );
    let count = 32.min(100 - from);
    let mut body = Vec::new();
    for _ in 0..count {
        body.extend_from_slice(&1100u32.to_be_bytes());
        body.resize(body.len() + 1096, 7);
    }
    let fields = match from + count {
        32 => "\"nextBeginOffset\":\"32\",\"maxOffset\":\"100\"",
        64 => "\"nextBeginOffset\":\"64\",\"maxOffset\":\"100\"",
        96 => "\"nextBeginOffset\":\"96\",\"maxOffset\":\"100\"",
        _ => "\"nextBeginOffset\":\"100\",\"maxOffset\":\"100\"",
    };
    (0, opaque, body, fields)
}

#[test]
fn pulls_walk_round_and_round() {
    let addr = start(shelf, 20_000);
    let text = good(&loadgen(
        addr,
        "pull --count 2000 --connections 2 --in-flight 2",
    ));
    let messages = number_after(&text, "\"messages\":");
    assert!((2000..2200).contains(&messages), "{text}");
    assert_eq!(number_after(&text, "\"bytes\":"), messages * 1100);
}

#[test]
fn an_empty_topic_is_told() {
    let nothing: Manner = |_, opaque, _| (19, opaque, Vec::new(), "\"nextBeginOffset\":\"0\"");
    let out = loadgen(start(nothing, usize::MAX), "pull --seconds 5");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&out.stderr).contains("no messages"),
        "{out:?}"
    );
}

#[test]
fn idle_tells_when_it_is_closed() {
    let addr = start(stored, usize::MAX);
    let text = good(&loadgen(addr, "idle --connections 50 --seconds 0.2"));
    assert!(
        text.contains("\"connections\":50,\"closed_by_broker\":0"),
        "{text}"
    );

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    let out = loadgen(addr, "idle --connections 5 --seconds 0.3");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("\"closed_by_broker\":5"),
        "{out:?}"
    );
}

/// A broker of transactions: each half's offsets are told and have to come back with its end.
/// `loses`: one in so many commits is not delivered (0: none). It checks back once for each 100
/// halves and delivers to queue 0 alone.
fn transactions(loses: i64) -> impl Fn(&str) -> Vec<u8> + Send + Sync {
    let (halves, delivered, ends) = (AtomicI64::new(0), AtomicI64::new(7), AtomicI64::new(0));
    move |header: &str| {
        let opaque = number_after(header, "\"opaque\":");
        let text = |name: &str| {
            let at = header.find(name).unwrap() + name.len();
            header[at..at + 28].to_string()
        };
        match number_after(header, "\"code\":") {
            34 => {
                assert_eq!(number_after(header, "\"flag\":"), 0);
                frame(0, 1, opaque, "", b"")
            }
            30 if header.contains("\"queueId\":\"0\"") => {
                let offset = format!("\"offset\":\"{}\"", delivered.load(SeqCst));
                frame(0, 1, opaque, &offset, b"")
            }
            30 => frame(17, 1, opaque, "", b""),
            310 => {
                assert!(header.contains("TRAN_MSG\\u0001true\\u0002"), "{header}");
                assert!(header.contains("PGROUP\\u0001loadgen\\u0002"), "{header}");
                let key = text("UNIQ_KEY\\u0001");
                let n = halves.fetch_add(1, SeqCst);
                let fields = format!(
                    "\"msgId\":\"7F00000100002A9F{:016X}\",\"queueId\":\"1\",\
                     \"queueOffset\":\"{n}\",\"transactionId\":\"{key}\"",
                    n * 1000
                );
                let mut out = frame(0, 1, opaque, &fields, b"");
                if n % 100 == 99 {
                    out.extend(frame(39, 2, n, "\"commitLogOffset\":\"0\"", b"half"));
                }
                out
            }
            37 => {
                let n = number_after(header, "\"tranStateTableOffset\":\"");
                assert_eq!(
                    number_after(header, "\"commitLogOffset\":\""),
                    n * 1000,
                    "{header}"
                );
                assert_eq!(text("\"msgId\":\""), text("\"transactionId\":\""));
                assert!(header.contains("\"fromTransactionCheck\":\"false\""));
                let turn = ends.fetch_add(1, SeqCst);
                match number_after(header, "\"commitOrRollback\":\"") {
                    8 if loses > 0 && turn % loses == 0 => {}
                    8 => _ = delivered.fetch_add(1, SeqCst),
                    12 => {}
                    _ => panic!("{header}"),
                }
                match number_after(header, "\"flag\":") {
                    2 => Vec::new(),
                    _ => frame(0, 1, opaque, "", b""),
                }
            }
            _ => panic!("{header}"),
        }
    }
}

#[test]
fn every_transaction_is_ended_and_delivered() {
    for two_way in ["", " --two-way"] {
        let addr = start_with(transactions(0), 10_000);
        let line = format!(
            "transaction --count 2000 --connections 3 --in-flight 5 --rollback 25{two_way}"
        );
        let text = good(&loadgen(addr, &line));
        for (field, value) in [
            ("messages", 2000),
            ("all_commits", 1500),
            ("missing", 0),
            ("repeated", 0),
            ("checks", 20),
        ] {
            let found = number_after(&text, &format!("\"{field}\":"));
            assert_eq!(found, value, "{field}: {text}");
        }
        assert_eq!(text.contains("end_p99_us"), !two_way.is_empty(), "{text}");
    }
}

#[test]
fn a_commit_that_is_not_delivered_is_told() {
    let addr = start_with(transactions(10), usize::MAX);
    let out = loadgen(addr, "transaction --count 500 --in-flight 4 --settle 0.2");
    assert_eq!(out.status.code(), Some(1));
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(number_after(&text, "\"missing\":"), 50, "{text}");
}
