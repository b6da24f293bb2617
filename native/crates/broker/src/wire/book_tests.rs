use super::super::{Budget, Context, Session};
use super::*;
use crate::rpc_figures::Fate;
use crate::testing::Rig;
use pyrmq_format::message_type::MessageType;
use pyrmq_store::{FlushMode, monotonic_us};
use std::sync::Arc;

const SLOW_MS: u32 = 1000;
/// How long a request was ready before it was fed, µs.
const WAITED: i64 = 40;
/// No write takes so long, µs.
const LATER: i64 = 60_000_000;

struct Sessions {
    context: Arc<Context>,
    session: Session,
    out: Vec<u8>,
    _rig: Rig,
}

fn peer() -> Host {
    Host::new("10.1.2.3:4567".parse().unwrap())
}

impl Sessions {
    fn new(flush_mode: FlushMode) -> Self {
        let rig = Rig::flushing(false, flush_mode);
        let broker = crate::Broker::new(rig.broker.store().clone(), None, "R", "C", true);
        let figures = Arc::new(RpcFigures::default());
        figures.set_slow_ms(SLOW_MS);
        let context = Arc::new(Context::new(broker, "R", true).with_figures(figures));
        let session = Session::new(
            Some(context.clone()),
            Arc::new(Budget::new(1 << 24)),
            peer(),
        );
        Sessions {
            context,
            session,
            out: Vec::new(),
            _rig: rig,
        }
    }

    fn store(&self) -> &Store {
        self.context.broker.store()
    }

    /// Feeds what was ready for `WAITED` µs. Returns when that was.
    fn feed(&mut self, frames: &[Vec<u8>]) -> i64 {
        let now = monotonic_us();
        self.session.set_clock(now, WAITED);
        let data = frames.concat();
        self.session
            .feed_one_of(&data, now / 1000, true, &mut self.out)
            .unwrap();
        now
    }

    /// Releases what is confirmed, as if it was so long after `fed`.
    fn release(&mut self, fed: i64, later: i64) {
        let now = fed + later;
        self.session.set_clock(now, 0);
        self.session.release(now / 1000, i64::MAX, &mut self.out);
    }

    /// (code, response code, result, number, sum) of all rows.
    fn rows(&self) -> Vec<(i32, i32, Fate, u64, u64)> {
        let rows = self.context.figures.rows().into_iter();
        rows.map(|(kind, row)| (kind.code, kind.response, kind.fate, row[0], row[1]))
            .collect()
    }
}

fn frame(code: i32, flag: i32, fields: &str, body: &[u8]) -> Vec<u8> {
    let header =
        format!("{{\"code\":{code},\"flag\":{flag},\"opaque\":7,\"extFields\":{{{fields}}}}}");
    let mut out = Vec::new();
    out.extend_from_slice(&(4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

fn send(flag: i32, queue: u32, properties: &str) -> Vec<u8> {
    let fields = format!(
        "\"a\":\"g\",\"b\":\"Orders\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"{queue}\",\"f\":\"0\",\
         \"g\":\"1700000000000\",\"h\":\"0\",\"i\":\"{properties}\",\"j\":\"0\",\"k\":\"false\",\
         \"m\":\"false\""
    );
    frame(310, flag, &fields, b"hello")
}

#[test]
fn each_request_is_entered_once() {
    let mut s = Sessions::new(FlushMode::Async);
    s.context.figures.set_slow_ms(0);
    let fed = s.feed(&[
        send(0, 0, ""),
        send(0, 1, "__SHARDINGKEY\\u0001k\\u0002"),
        send(2, 0, ""),
        send(2, 99, ""),
        send(0, 0, ""),
        send(0, 99, ""),
    ]);
    assert!(s.session.is_to_settle());
    s.session.settle(fed + 100);
    let at_once = 100 + WAITED as u64;
    let oneway = [
        (310, 0, Fate::Oneway, 1, at_once),
        (310, 29, Fate::Oneway, 1, at_once),
    ];
    assert_eq!(s.rows(), oneway, "the others wait for the write");
    s.store().write_staged(|_| ()).unwrap();
    s.release(fed, LATER);
    let kept = LATER as u64 + WAITED as u64;
    assert_eq!(
        s.rows(),
        [
            (310, 0, Fate::Success, 3, 3 * kept),
            oneway[0],
            (310, 29, Fate::Success, 1, kept),
            oneway[1],
        ]
    );
    s.session.settle(fed + 200);
    s.release(fed, LATER);
    assert_eq!(
        s.rows().iter().map(|row| row.3).sum::<u64>(),
        6,
        "each of them once"
    );
    let figures = s.store().figures();
    assert_eq!(
        figures.puts.row()[..2],
        [3, 3 * kept],
        "what was stored and answered"
    );
    assert_eq!(figures.barrier_waits.count(), 0, "a write confirms");
    assert_eq!(figures.writes.count(), 1);
    let mut sizes = Vec::new();
    for topic in s.store().topics().all() {
        sizes.extend(topic.figures().sizes().map(|(kind, row)| (kind, row[0])));
    }
    assert_eq!(
        sizes,
        [(MessageType::Normal, 3), (MessageType::Fifo, 1)],
        "one-way ones too"
    );
    assert!(s.context.figures.take_slow().requests.is_empty());
}

#[test]
fn what_waits_too_long_for_its_flush_is_slow() {
    let mut s = Sessions::new(FlushMode::Sync);
    let fed = s.feed(&[send(0, 2, ""), send(0, 2, "")]);
    s.store().write_staged(|_| ()).unwrap();
    assert!(s.store().log_flusher().flush());
    s.release(fed, LATER);
    let took = LATER as u64 + WAITED as u64;
    assert_eq!(s.rows(), [(310, 0, Fate::Success, 2, 2 * took)]);
    let slow = s.context.figures.take_slow().requests;
    assert_eq!(slow.len(), 2, "each has its own line");
    for (n, one) in slow.iter().enumerate() {
        assert_eq!((one.code, one.response, one.peer), (310, 0, peer()));
        assert_eq!((one.queued, one.total()), (WAITED as u64, took));
        assert!(one.replicated > 0, "behind the flush");
        let place = one.place.unwrap();
        assert_eq!((place.queue_id, place.queue_offset), (2, n as i64));
        let record = s.store().record_by_offset(place.physical_offset).unwrap();
        assert!(record.is_some(), "it is where the line says");
    }
    let figures = s.store().figures();
    assert_eq!(figures.barrier_waits.count(), 2);
    assert_eq!(figures.puts.row()[..2], [2, 2 * took]);
}

#[test]
fn what_timed_out_is_entered_with_the_code_that_it_got() {
    let mut s = Sessions::new(FlushMode::Sync);
    s.store().log_flusher().hold(); // nobody flushes
    let fed = s.feed(&[send(0, 0, "")]);
    s.session.set_clock(fed + 900_000, 0);
    s.session.release((fed + 900_000) / 1000, 500, &mut s.out);
    let took = 900_000 + WAITED as u64;
    assert_eq!(s.rows(), [(310, 10, Fate::Success, 1, took)]);
}

#[test]
fn an_answer_of_python_has_the_code_and_the_time_of_its_request() {
    use super::super::frame::Codec;
    use super::super::reply::{self, To};
    let mut s = Sessions::new(FlushMode::Async);
    let to = To {
        codec: Codec::Json,
        opaque: 3,
    };
    let mut answer = Vec::new();
    reply::push(&mut answer, to, 0, None, &[]);
    let now = monotonic_us() / 1000 * 1000;
    for (code, long_polling) in [(37, false), (200_050, true)] {
        let (session, out) = (&mut s.session, &mut s.out);
        session.set_since(now - 3_000_000, now / 1000);
        session.answer(&answer, to, code, long_polling, 0, now / 1000, out);
        session.settle(now);
    }
    let rows = s.context.figures.rows();
    let kinds = rows
        .iter()
        .map(|(kind, row)| (kind.code, kind.long_polling, row[1]));
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [(37, false, 3_000_000), (200_050, true, 3_000_000)]
    );
    let slow = s.context.figures.take_slow().requests;
    assert_eq!(slow.len(), 1, "what waited for messages was not slow");
    assert_eq!((slow[0].code, slow[0].queued), (37, 3_000_000));
}

#[test]
fn the_parts_add_up_and_never_go_back() {
    let span = |begun, ended| Some(Span { begun, ended });
    assert_eq!(parts(0, None, None, 50), [50, 0, 0, 0]);
    assert_eq!(parts(0, span(5, 7), None, 50), [5, 2, 0, 43]);
    assert_eq!(parts(0, span(5, 7), Some(Some(30)), 50), [5, 2, 23, 20]);
    assert_eq!(
        parts(0, span(5, 7), Some(None), 50),
        [5, 2, 43, 0],
        "not flushed yet"
    );
    assert_eq!(
        parts(10, span(5, 7), Some(Some(8)), 50),
        [0, 0, 0, 40],
        "before it came"
    );
    assert_eq!(
        parts(10, span(20, 90), Some(Some(95)), 50),
        [10, 30, 0, 0],
        "known later"
    );
    assert_eq!(parts(60, span(20, 90), Some(Some(95)), 50), [0, 0, 0, 0]);
}

#[test]
fn answers_that_name_no_message_have_no_place() {
    assert_eq!(place(b""), None);
    assert_eq!(place(&frame(0, 1, "", b"")), None);
    let fields = "\"msgId\":\"0A01\",\"queueId\":\"1\",\"queueOffset\":\"2\"";
    assert_eq!(place(&frame(0, 1, fields, b"")), None, "too short");
    let id = "0A0102030000277800000000000001FF";
    let fields = format!("\"msgId\":\"{id},x\",\"queueId\":\"1\",\"queueOffset\":\"2\"");
    let expected = Place {
        queue_id: 1,
        queue_offset: 2,
        physical_offset: 511,
    };
    assert_eq!(
        place(&frame(0, 1, &fields, b"")),
        Some(expected),
        "the first of a batch"
    );
}
