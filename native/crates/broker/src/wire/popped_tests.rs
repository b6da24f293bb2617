use super::super::super::ack::{ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_INVISIBLE_TIME};
use super::super::{Budget, Context};
use super::*;
use crate::pop::testing::{INVISIBLE, Logged, NOW, PopRig};
use crate::testing::TOPIC;
use crate::{Broker, Keyring};
use pyrmq_format::host::Host;
use pyrmq_sign::Key;
use pyrmq_store::now_ms;
use std::sync::Arc;

struct Rig {
    pops: PopRig,
    session: Session,
}

fn rig(keyring: Option<Arc<Keyring>>) -> Rig {
    let pops = PopRig::new();
    pops.put(TOPIC, &["a"; 50]);
    let store = pops.pops.store().clone();
    let broker = Broker::new(store, None, "R", "C", true).with_pops(pops.pops.clone());
    let context = Arc::new(Context::new(broker, "R", true));
    let host = Host::new("10.1.2.3:4567".parse().unwrap());
    let session = Session::new(Some(context), Arc::new(Budget::new(1 << 24)), host);
    let session = match keyring {
        Some(ring) => session.with_keyring(ring),
        None => session,
    };
    Rig { pops, session }
}

fn frame(code: i32, flag: i32, ext: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let ext: Vec<_> = ext
        .iter()
        .map(|(n, v)| format!("\"{n}\":\"{v}\""))
        .collect();
    let ext = ext.join(",");
    let header =
        format!("{{\"code\":{code},\"flag\":{flag},\"opaque\":77,\"extFields\":{{{ext}}}}}");
    let mut out = Vec::new();
    out.extend_from_slice(&(4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

fn handle(start: i64, offset: i64) -> String {
    format!("{start} {NOW} {INVISIBLE} 3 0 broker-a 1 {offset}")
}

fn fields<'a>(offset: &'a str, handle: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("topic", "Orders"),
        ("consumerGroup", "g"),
        ("queueId", "1"),
        ("offset", offset),
        ("extraInfo", handle),
    ]
}

fn ack(offset: i64, start: i64) -> Vec<u8> {
    let (offset, handle) = (offset.to_string(), handle(start, offset));
    frame(ACK_MESSAGE, 0, &fields(&offset, &handle), b"")
}

fn acked(start: i64, offsets: &[i64]) -> Logged {
    Logged::Ack {
        of: ("Orders".into(), "g".into(), 1, start, NOW),
        due: NOW + INVISIBLE - 1000,
        offsets: offsets.into(),
    }
}

impl Rig {
    /// Codes and texts of the answers to these frames.
    fn feed(&mut self, frames: &[Vec<u8>]) -> Vec<String> {
        let mut out = Vec::new();
        self.session
            .feed(&frames.concat(), 1_000_000, &mut out)
            .unwrap();
        let (mut rest, mut answers) = (&out[..], Vec::new());
        while !rest.is_empty() {
            let parts = crate::wire::frame::split(rest).unwrap().unwrap();
            answers.push(String::from_utf8(rest[8..parts.header_end].to_vec()).unwrap());
            rest = &rest[parts.total..];
        }
        answers
    }
}

fn are_plain(answers: &[String]) -> bool {
    let good = |a: &String| a.starts_with("{\"code\":0,\"flag\":1") && a.contains("\"opaque\":77,");
    answers.iter().all(good)
}

#[test]
fn acks_of_one_feed_and_check_point_are_one_record() {
    let mut rig = rig(None);
    let answers = rig.feed(&[ack(4, 0), ack(2, 0), ack(30, 30), ack(6, 0)]);
    assert!(answers.len() == 4 && are_plain(&answers), "{answers:?}");
    assert_eq!(rig.session.commands(), 0);
    assert_eq!(rig.pops.logged(), [acked(0, &[2, 4, 6]), acked(30, &[30])]);
    // The end of the queue is allowed, as in RocketMQ.
    assert_eq!(rig.feed(&[ack(50, 0)]).len(), 1);
    assert_eq!(rig.pops.logged().len(), 3);
}

#[test]
fn something_else_between_acks_keeps_their_order() {
    let mut rig = rig(None);
    let other = frame(35, 0, &[], b"");
    let answers = rig.feed(&[ack(2, 0), other, ack(4, 0)]);
    assert_eq!((answers.len(), rig.session.commands()), (2, 1));
    assert_eq!(rig.pops.logged(), [acked(0, &[2]), acked(0, &[4])]);
}

#[test]
fn an_answer_that_nobody_waits_for_is_not_given() {
    let mut rig = rig(None);
    let handle = handle(0, 2);
    let oneway = frame(ACK_MESSAGE, 2, &fields("2", &handle), b"");
    assert!(rig.feed(&[oneway]).is_empty());
    assert_eq!(rig.pops.logged(), [acked(0, &[2])]);
}

#[test]
fn what_is_not_plain_is_the_brokers_and_stores_nothing() {
    let good = handle(0, 2);
    let mut wrong = Vec::new();
    for (name, value) in [
        ("topic", "NoTopic"),
        ("topic", "rmq_sys_wheel_timer"),
        ("queueId", "4"),
        ("queueId", "-1"),
        ("queueId", "2"), // never written
        ("queueId", "x"),
        ("offset", "51"),
        ("offset", "-1"),
        ("offset", "x"),
        ("consumerGroup", ""),
        ("extraInfo", "0 1"),
        ("extraInfo", "0 1700000000000 60000 3 0 broker-a 1"),
        ("extraInfo", "0 1700000000000 60000 3 0 broker-a 1 3"),
        ("extraInfo", "0 1700000000000 60000 3 0 broker-a 2 2"),
        ("consumerGroup", "a b"),
        ("extraInfo", "9 1700000000000 60000 3 0 broker-a 1 2"), // from behind it
        ("extraInfo", "0 1700000000000 60000 3 0 broker-b 1 2"),
        ("extraInfo", "0 1700000000000 60000 8 0 broker-a 1 2"),
        ("extraInfo", "0 1700000000000 60000 999 0 broker-a 1 2"),
        ("extraInfo", "0 9800000000000 60000 3 0 broker-a 1 2"),
        (
            "extraInfo",
            "0 1700000000000 9223372036854775807 3 0 broker-a 1 2",
        ),
        ("liteTopic", "x"),
    ] {
        let mut fields = fields("2", &good);
        fields.retain(|(n, _)| *n != name);
        wrong.push(fields.clone()); // without it
        fields.push((name, value));
        wrong.push(fields);
    }
    // Without a lite topic it is as it should be.
    let at = wrong.len() - 2;
    wrong.remove(at);
    for fields in wrong {
        let mut rig = rig(None);
        assert_eq!(rig.feed(&[frame(ACK_MESSAGE, 0, &fields, b"")]).len(), 0);
        assert_eq!(rig.session.commands(), 1, "{fields:?}");
        let mut changed = fields.clone();
        changed.push(("invisibleTime", "1000"));
        rig.feed(&[frame(CHANGE_INVISIBLE_TIME, 0, &changed, b"")]);
        assert_eq!(rig.session.commands(), 2, "{fields:?}");
        assert_eq!(rig.pops.logged(), []);
    }
}

#[test]
fn handles_are_compared_with_the_clock_of_the_store() {
    let mut rig = rig(None);
    let ahead = 100_000_000;
    rig.pops.pops.store().advance_clock(ahead);
    let pop_time = now_ms() + ahead;
    let handle = format!("0 {pop_time} {INVISIBLE} 3 0 broker-a 1 2");
    let mut asked = fields("2", &handle);
    rig.feed(&[frame(ACK_MESSAGE, 0, &asked, b"")]);
    asked.push(("invisibleTime", "30000"));
    rig.feed(&[frame(CHANGE_INVISIBLE_TIME, 0, &asked, b"")]);
    assert_eq!(rig.session.commands(), 0);
    let logged = rig.pops.logged();
    let Logged::CheckPoint { of, .. } = &logged[1] else {
        panic!()
    };
    assert!(of.4 >= pop_time);
}

#[test]
fn a_change_is_answered_with_its_new_handle() {
    let mut rig = rig(None);
    let handle = handle(0, 2);
    let mut asked = fields("2", &handle);
    asked.push(("invisibleTime", "30000"));
    // It goes by the store's clock, which a test may have moved.
    rig.pops.pops.store().advance_clock(3_600_000);
    let before = rig.pops.pops.store().now_ms();
    let answers = rig.feed(&[ack(3, 0), frame(CHANGE_INVISIBLE_TIME, 0, &asked, b"")]);
    let logged = rig.pops.logged();
    assert_eq!((&logged[0], &logged[2]), (&acked(0, &[3]), &acked(0, &[2])));
    let Logged::CheckPoint { of, .. } = &logged[1] else {
        panic!()
    };
    assert!(of.3 == 2 && (before..=rig.pops.pops.store().now_ms()).contains(&of.4));
    let expected = format!(
        "{{\"code\":0,\"extFields\":{{\"invisibleTime\":\"30000\",\"popTime\":\"{}\",\
         \"reviveQid\":\"3\"}},",
        of.4
    );
    assert!(answers[1].starts_with(&expected), "{answers:?}");
    // The queue's end has no message, and times are bounded.
    for (offset, time) in [("50", "30000"), ("2", "-1"), ("2", "259200001"), ("2", "x")] {
        let mut asked = fields(offset, &handle);
        asked.push(("invisibleTime", time));
        assert!(
            rig.feed(&[frame(CHANGE_INVISIBLE_TIME, 0, &asked, b"")])
                .is_empty()
        );
    }
    let without = frame(CHANGE_INVISIBLE_TIME, 0, &fields("2", &handle), b"");
    assert!(rig.feed(&[without]).is_empty());
    assert_eq!((rig.session.commands(), rig.pops.logged().len()), (5, 3));
}

#[test]
fn a_batch() {
    let mut rig = rig(None);
    let entry = |start: i64, bits: &str| {
        format!(
            "{{\"b\":\"{bits}\",\"c\":\"g\",\"it\":{INVISIBLE},\"pt\":{NOW},\"q\":1,\"r\":\"0\",\
             \"rq\":3,\"so\":{start},\"t\":\"Orders\"}}"
        )
    };
    let batch = |broker: &str, entries: &[String]| {
        let entries = entries.join(",");
        let body = format!("{{\"brokerName\":\"{broker}\",\"acks\":[{entries}]}}");
        frame(BATCH_ACK_MESSAGE, 0, &[], body.as_bytes())
    };
    // Bits 0, 2 and 9; then 49, 51 and 58, of which the queue has one.
    let all = [entry(2, "BQI="), entry(49, "BQI=")];
    let answers = rig.feed(&[batch("broker-a", &all)]);
    assert!(answers.len() == 1 && are_plain(&answers), "{answers:?}");
    assert_eq!(rig.pops.logged(), [acked(2, &[2, 4, 11]), acked(49, &[49])]);
    // One entry that is not plain, or of a queue that may be new, and nothing of it is stored.
    let other_queue = entry(2, "AQ==").replace("\"q\":1", "\"q\":2");
    let forged = entry(2, "AQ==").replace("\"rq\":3", "\"rq\":8");
    for bad in [
        batch("broker-b", &[entry(2, "AQ==")]),
        batch("broker-a", &[entry(2, "AQ=="), forged]),
        batch("broker-a", &[entry(2, "AQ=="), other_queue]),
        frame(BATCH_ACK_MESSAGE, 0, &[], b""),
    ] {
        let before = rig.session.commands();
        assert!(rig.feed(&[bad]).is_empty());
        assert_eq!(rig.session.commands(), before + 1);
    }
    assert_eq!(rig.pops.logged().len(), 2);
}

#[test]
fn with_access_control_only_what_was_granted() {
    let ring = Arc::new(Keyring::default());
    ring.replace([("alice", "secret")]).unwrap();
    let mut rig = rig(Some(ring.clone()));
    let signed = |offset: i64| {
        let (offset, handle) = (offset.to_string(), handle(0, offset));
        let (offset, handle) = (&offset[..], &handle[..]);
        let mut ext = fields(offset, handle);
        ext.push(("AccessKey", "alice"));
        ext.sort();
        let text: String = ext.iter().map(|(_, value)| *value).collect();
        let mac = Key::new(b"secret").mac(text.as_bytes(), b"");
        let signature = String::from_utf8(pyrmq_sign::encode(&mac).to_vec()).unwrap();
        ext.push(("Signature", &signature));
        frame(ACK_MESSAGE, 0, &ext, b"")
    };
    for resource in ["Orders\nh", "Order\ng", "Orders"] {
        assert!(rig.session.grant_access(access::ACK, "alice", resource));
    }
    rig.session.grant_access(access::SEND, "alice", "Orders\ng");
    assert!(rig.feed(&[signed(2), ack(3, 0)]).is_empty());
    assert_eq!(rig.session.commands(), 2);
    rig.session.grant_access(access::ACK, "alice", "Orders\ng");
    assert!(are_plain(&rig.feed(&[signed(2), signed(3)])));
    // Nobody has signed this one.
    assert!(rig.feed(&[ack(4, 0)]).is_empty());
    assert_eq!(rig.pops.logged(), [acked(0, &[2, 3])]);
    ring.revoke();
    assert!(rig.feed(&[signed(5)]).is_empty());
    assert_eq!(rig.pops.logged().len(), 1);
}

#[test]
fn without_pops_everything_is_the_brokers() {
    let pops = PopRig::new();
    pops.put(TOPIC, &["a"; 50]);
    let broker = Broker::new(pops.pops.store().clone(), None, "R", "C", true);
    let context = Arc::new(Context::new(broker, "R", true));
    let host = Host::new("10.1.2.3:4567".parse().unwrap());
    let session = Session::new(Some(context), Arc::new(Budget::new(1 << 24)), host);
    let mut rig = Rig { pops, session };
    assert!(rig.feed(&[ack(2, 0)]).is_empty());
    assert_eq!(rig.session.commands(), 1);
}

#[test]
fn the_broker_may_want_to_hear_of_all() {
    let mut rig = rig(None);
    for (direct, commands) in [(false, 1), (true, 1), (false, 2)] {
        rig.pops.pops.set_direct(direct);
        assert_eq!(rig.feed(&[ack(2, 0)]).len(), direct as usize);
        assert_eq!(rig.session.commands(), commands);
    }
}
