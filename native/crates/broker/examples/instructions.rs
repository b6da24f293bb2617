//! Loads whose instructions are counted: `instructions LOAD COUNT`, under callgrind.
//!
//! A session of a store in a temporary folder is fed with frames as clients send them, in rounds as the
//! ready loop has them: feed, write, release. Callgrind counts what happens in `measured`; the load
//! `index` is what the indexing thread does meanwhile (`Indexer::index_some`). `benches/instructions`
//! runs it and divides by COUNT. Without callgrind the time that is printed says what caches do.

use pyrmq_broker::wire::access;
use pyrmq_broker::wire::frame::split;
use pyrmq_broker::wire::header::Header;
use pyrmq_broker::wire::pull::ALIKE;
use pyrmq_broker::wire::{Budget, Context, Session};
use pyrmq_broker::{Broker, Keyring, PullGrants};
use pyrmq_format::host::Host;
use pyrmq_sign::{Key, encode};
use pyrmq_store::{Content, Message, Store, StoreConfig, Topic, TopicSettings};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Frames of one feed, as of a connection with many requests in flight.
const IN_FLIGHT: usize = 64;
const BATCH: usize = 32;
const BODY: usize = 1024;
const QUEUES: usize = 4;
/// Topics of the load that has many.
const TOPICS: usize = 500;
const NOW: i64 = 1_764_000_000_000;

/// All that callgrind counts, but for the load `index`.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    let began = Instant::now();
    work();
    println!("{} us", began.elapsed().as_micros());
}

/// How a client writes its headers.
#[derive(Clone, Copy)]
enum Client {
    /// Java 5.x: SEND_MESSAGE_V2, its map's order.
    Java5,
    /// Java 4.9 where it sends SEND_MESSAGE.
    Java49,
    /// Go, fields sorted by name.
    Go,
}

fn properties(n: usize) -> String {
    format!(
        "KEYS\\u0001order-{n:08}\\u0002UNIQ_KEY\\u00017F000001000118B4AAC2{n:012X}\\u0002WAIT\\u0001true\\u0002\
         TAGS\\u0001TagA\\u0002"
    )
}

fn send_header(client: Client, topic: &str, n: usize) -> String {
    let (queue, props) = (n % QUEUES, properties(n));
    let opaque = 1_000_000 + n;
    match client {
        Client::Java5 => format!(
            "{{\"code\":310,\"extFields\":{{\"a\":\"ProducerGroup\",\"b\":\"{topic}\",\"c\":\"TBW102\",\"d\":\"4\",\
             \"e\":\"{queue}\",\"f\":\"0\",\"g\":\"{NOW}\",\"h\":\"0\",\"i\":\"{props}\",\"j\":\"0\",\
             \"k\":\"false\",\"m\":\"false\",\"n\":\"broker-a\"}},\"flag\":0,\"language\":\"JAVA\",\
             \"opaque\":{opaque},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}"
        ),
        Client::Java49 => format!(
            "{{\"code\":10,\"extFields\":{{\"queueId\":\"{queue}\",\"producerGroup\":\"ProducerGroup\",\
             \"flag\":\"0\",\"sysFlag\":\"0\",\"reconsumeTimes\":\"0\",\"batch\":\"false\",\"topic\":\"{topic}\",\
             \"unitMode\":\"false\",\"bornTimestamp\":\"{NOW}\",\"defaultTopic\":\"TBW102\",\
             \"properties\":\"{props}\",\"defaultTopicQueueNums\":\"4\"}},\"flag\":0,\"language\":\"JAVA\",\
             \"opaque\":{opaque},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}}"
        ),
        Client::Go => format!(
            "{{\"code\":10,\"language\":\"GO\",\"version\":317,\"opaque\":{opaque},\"flag\":0,\"remark\":\"\",\
             \"extFields\":{{\"batch\":\"false\",\"bornTimestamp\":\"{NOW}\",\"defaultTopic\":\"TBW102\",\
             \"defaultTopicQueueNums\":\"4\",\"flag\":\"0\",\"producerGroup\":\"ProducerGroup\",\
             \"properties\":\"{props}\",\"queueId\":\"{queue}\",\"reconsumeTimes\":\"0\",\"sysFlag\":\"0\",\
             \"topic\":\"{topic}\",\"unitMode\":\"false\"}}}}"
        ),
    }
}

fn batch_header(topic: &str, n: usize) -> String {
    format!(
        "{{\"code\":320,\"extFields\":{{\"a\":\"ProducerGroup\",\"b\":\"{topic}\",\"c\":\"TBW102\",\"d\":\"4\",\
         \"e\":\"{}\",\"f\":\"0\",\"g\":\"{NOW}\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u00017F000001000118B4AAC2{n:012X}\
         \\u0002WAIT\\u0001true\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"true\",\"n\":\"broker-a\"}},\
         \"flag\":0,\"language\":\"JAVA\",\"opaque\":{},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}",
        n % QUEUES,
        1_000_000 + n
    )
}

fn pull_header(topic: &str, offset: usize) -> String {
    format!(
        "{{\"code\":11,\"extFields\":{{\"queueId\":\"0\",\"maxMsgNums\":\"32\",\"sysFlag\":\"6\",\
         \"suspendTimeoutMillis\":\"15000\",\"commitOffset\":\"0\",\"bname\":\"broker-a\",\"topic\":\"{topic}\",\
         \"queueOffset\":\"{offset}\",\"expressionType\":\"TAG\",\"subscription\":\"*\",\
         \"subVersion\":\"{NOW}\",\"consumerGroup\":\"ConsumerGroup\"}},\"flag\":0,\"language\":\"JAVA\",\
         \"opaque\":{},\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}}",
        1_000_000 + offset
    )
}

fn push_frame(out: &mut Vec<u8>, header: &str, body: &[u8]) {
    let total = 4 + header.len() + body.len();
    out.extend_from_slice(&(total as u32).to_be_bytes());
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
}

const ACCESS_KEY: &str = "rocketmq2";
const SECRET_KEY: &str = "12345678";

/// The same header with an access key and the signature that its owner makes.
fn signed(header: &str, body: &[u8]) -> String {
    let with_field = |header: &str, name: &str, value: &str| {
        header.replacen(
            "\"extFields\":{",
            &format!("\"extFields\":{{\"{name}\":\"{value}\","),
            1,
        )
    };
    let header = with_field(header, "AccessKey", ACCESS_KEY);
    let (_, fields) = header.split_once("\"extFields\":{").unwrap();
    let (fields, _) = fields.split_once('}').unwrap();
    let mut fields: Vec<_> = fields
        .split("\",")
        .map(|field| field.split_once(':').unwrap())
        .collect();
    fields.sort();
    let values = fields.iter().map(|(_, value)| value.trim_matches('"'));
    let values = values
        .collect::<String>()
        .replace("\\u0001", "\u{1}")
        .replace("\\u0002", "\u{2}");
    let mac = Key::new(SECRET_KEY.as_bytes()).mac(values.as_bytes(), body);
    with_field(
        &header,
        "Signature",
        std::str::from_utf8(&encode(&mac)).unwrap(),
    )
}

fn batch_body(n: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for i in 0..BATCH {
        let props = properties(n * BATCH + i)
            .replace("\\u0001", "\u{1}")
            .replace("\\u0002", "\u{2}");
        out.extend_from_slice(&((22 + BODY + props.len()) as i32).to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&(BODY as i32).to_be_bytes());
        out.extend_from_slice(&[b'x'; BODY]);
        out.extend_from_slice(&(props.len() as i16).to_be_bytes());
        out.extend_from_slice(props.as_bytes());
    }
    out
}

struct Rig {
    store: Arc<Store>,
    grants: Arc<PullGrants>,
    session: Session,
    context: Option<Arc<Context>>,
    out: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new(topics: &[String]) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 256 << 20;
        config.consume_queue_file_size = 20 * 30_000;
        (config.index_slots, config.index_entries) = (500_000, 2_000_000);
        let store = Store::open(config).unwrap();
        for name in topics {
            let topic = store.topics().topic(name.as_bytes()).unwrap();
            topic.set(Some(TopicSettings {
                read_queues: QUEUES as u32,
                write_queues: QUEUES as u32,
                multi_tag: false,
                sendable: true,
            }));
        }
        let grants = Arc::<PullGrants>::default();
        let broker = Broker::new(store.clone(), None, "DefaultRegion", "DefaultCluster", true);
        let broker = broker.with_pulls(grants.clone());
        let context = Some(Arc::new(Context::new(broker, "DefaultRegion", true)));
        let host = Host::new("10.1.2.3:4567".parse().unwrap());
        Rig {
            store,
            grants,
            session: Session::new(context.clone(), Arc::new(Budget::new(1 << 26)), host),
            context,
            out: Vec::new(),
            _dir: dir,
        }
    }

    /// The same with access control: one user may send to all topics.
    fn guarded(names: &[String]) -> Rig {
        let mut rig = Rig::new(names);
        let ring = Arc::<Keyring>::default();
        ring.replace([(ACCESS_KEY, SECRET_KEY)]).unwrap();
        let host = Host::new("10.1.2.3:4567".parse().unwrap());
        let session = Session::new(rig.context.clone(), Arc::new(Budget::new(1 << 26)), host);
        rig.session = session.with_keyring(ring);
        for name in names {
            assert!(rig.session.grant_access(access::SEND, ACCESS_KEY, name));
        }
        rig
    }

    fn topic(&self, name: &str) -> Arc<Topic> {
        self.store.topics().get(name.as_bytes()).unwrap()
    }

    /// One round of the ready loop, with this one connection.
    fn round(&mut self, frames: &[u8]) {
        self.out.clear();
        let (session, out) = (&mut self.session, &mut self.out);
        session.feed_one_of(frames, NOW, true, out).unwrap();
        self.store.write_staged(|_| ()).unwrap();
        session.release(NOW, 5000, out);
    }

    /// Serves the rounds one after the other; only `count` requests at the end are counted.
    fn serve(&mut self, rounds: &[Vec<u8>], warm: usize) {
        let (before, counted) = rounds.split_at(warm);
        let mut answered = 0;
        for frames in before {
            self.round(frames);
            answered += self.answered();
        }
        measured(&mut || counted.iter().for_each(|frames| self.round(frames)));
        assert!(answered > 0 && self.answered() > 0);
    }

    /// How many answers the last round gave, all of which must be of code 0.
    fn answered(&self) -> usize {
        let (mut rest, mut header, mut n) = (&self.out[..], Header::default(), 0);
        while let Some(parts) = split(rest).unwrap() {
            header.read(parts.codec, rest, parts.header_end).unwrap();
            let remark = header
                .remark
                .map(|r| r.bytes(rest).escape_ascii().to_string());
            assert_eq!(header.code, 0, "{remark:?}");
            rest = &rest[parts.total..];
            n += 1;
        }
        assert!(
            self.session.commands() == 0,
            "nothing is left to the broker"
        );
        n
    }
}

/// `count` frames and some to begin with, `per_feed` in each round.
fn rounds(
    count: usize,
    per_feed: usize,
    frame: impl Fn(&mut Vec<u8>, usize),
) -> (Vec<Vec<u8>>, usize) {
    assert!(
        count.is_multiple_of(per_feed),
        "COUNT must be a multiple of {per_feed}"
    );
    let warm = (count / 8).max(per_feed) / per_feed;
    let all = (0..warm + count / per_feed).map(|round| {
        let mut out = Vec::new();
        for i in 0..per_feed {
            frame(&mut out, round * per_feed + i);
        }
        out
    });
    (all.collect(), warm)
}

fn sends(client: Client, count: usize, per_feed: usize, topics: usize) {
    let names: Vec<String> = (0..topics).map(|i| format!("TopicTest{i:05}")).collect();
    let mut rig = Rig::new(&names);
    if topics > 1 {
        // Every queue has its file before the counting begins.
        for queue in 0..QUEUES {
            for start in (0..topics).step_by(100) {
                let mut frames = Vec::new();
                for name in &names[start..(start + 100).min(topics)] {
                    push_frame(
                        &mut frames,
                        &send_header(client, name, queue),
                        &[b'x'; BODY],
                    );
                }
                rig.round(&frames);
            }
        }
    }
    let body = vec![b'x'; BODY];
    let (all, warm) = rounds(count, per_feed, |out, n| {
        push_frame(
            out,
            &send_header(client, &names[n % topics], n / topics),
            &body,
        )
    });
    rig.serve(&all, warm);
    rig.store.close().unwrap();
}

fn signed_sends(count: usize, per_feed: usize) {
    let names = ["TopicTest00000".to_owned()];
    let mut rig = Rig::guarded(&names);
    let body = vec![b'x'; BODY];
    let (all, warm) = rounds(count, per_feed, |out, n| {
        let header = signed(&send_header(Client::Java5, &names[0], n), &body);
        push_frame(out, &header, &body)
    });
    rig.serve(&all, warm);
    rig.store.close().unwrap();
}

fn batches(count: usize) {
    let names = ["TopicTest00000".to_owned()];
    let mut rig = Rig::new(&names);
    let (all, warm) = rounds(count / BATCH, 4, |out, n| {
        push_frame(out, &batch_header(&names[0], n), &batch_body(n));
    });
    rig.serve(&all, warm);
    rig.store.close().unwrap();
}

fn append(rig: &Rig, count: usize, per_guard: usize) {
    let topic = rig.topic("TopicTest00000");
    let mut message = Message {
        topic: &topic,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: NOW,
        born_host: Host::new("10.1.2.3:4567".parse().unwrap()),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let (body, props) = ([b'x'; BODY], properties(0).replace("\\u000", ""));
    let content = Content {
        flag: 0,
        body: &body,
        props: [props.as_bytes(), b"", b"", b""],
        tags_code: 7,
        count: 1,
    };
    for _ in 0..count / per_guard {
        let mut guard = rig.store.put().unwrap();
        for _ in 0..per_guard {
            guard.append(&message, &content).unwrap();
            message.queue_id = (message.queue_id + 1) % QUEUES as u32;
        }
    }
}

fn appends(count: usize) {
    let rig = Rig::new(&["TopicTest00000".to_owned()]);
    append(&rig, 1000, 100);
    measured(&mut || append(&rig, count, 100));
    rig.store.close().unwrap();
}

/// Pulls of 32 messages of 1 KiB that were granted, one in each feed; other queues have messages between.
fn pulls(count: usize) {
    const MESSAGES: usize = 100 << 10;
    let name = "TopicTest00000";
    let mut rig = Rig::new(&[name.to_owned()]);
    append(&rig, MESSAGES, 128);
    while rig.store.barrier().confirmed() < rig.store.log().max_offset() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = NOW.to_string();
    let values = ["ConsumerGroup", name, "0", "6", "*", &now, "TAG"];
    let alike: [_; ALIKE.len()] = std::array::from_fn(|i| Some(values[i].as_bytes()));
    let grant = rig.grants.grant(name, "ConsumerGroup", 0, &[]).unwrap();
    rig.session.grant_pull(11, &alike, None, grant);
    let (all, warm) = rounds(count, 1, |out, n| {
        push_frame(
            out,
            &pull_header(name, n * BATCH % (MESSAGES / QUEUES)),
            b"",
        )
    });
    rig.serve(&all, warm);
    rig.store.close().unwrap();
}

/// Messages with two keys, which the indexing thread puts into the index until the store is closed.
fn index(count: usize) {
    let names = ["TopicTest00000".to_owned()];
    let mut rig = Rig::new(&names);
    let body = vec![b'x'; BODY];
    for start in (0..count).step_by(IN_FLIGHT) {
        let mut frames = Vec::new();
        for n in start..(start + IN_FLIGHT).min(count) {
            push_frame(
                &mut frames,
                &send_header(Client::Java5, &names[0], n),
                &body,
            );
        }
        rig.round(&frames);
    }
    rig.store.close().unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, load, count] = &arguments[..] else {
        panic!("instructions LOAD COUNT");
    };
    let count: usize = count.parse().expect("COUNT is a number");
    match load.as_str() {
        "send-java5" => sends(Client::Java5, count, IN_FLIGHT, 1),
        "send-java49" => sends(Client::Java49, count, IN_FLIGHT, 1),
        "send-go" => sends(Client::Go, count, IN_FLIGHT, 1),
        "send-single" => sends(Client::Java5, count, 1, 1),
        "send-signed" => signed_sends(count, IN_FLIGHT),
        "send-signed-single" => signed_sends(count, 1),
        "send-topics" => sends(Client::Java5, count, IN_FLIGHT, TOPICS),
        "batch" => batches(count),
        "pull" => pulls(count),
        "append" => appends(count),
        "index" => index(count),
        other => panic!("no load {other}"),
    }
}
