use super::*;
use pyrmq_format::host::Host;
use pyrmq_format::pop::Retry;
use pyrmq_format::record::{Found, Head};

fn encoded(topic: &[u8], body: &[u8], props: &[u8]) -> Vec<u8> {
    let host = Host::new("10.1.2.3:4567".parse().unwrap());
    let head = Head {
        queue_id: 1,
        flag: 2,
        queue_offset: 3,
        phys: 4,
        sys_flag: 0,
        born_timestamp: 5,
        born_host: host,
        store_timestamp: 6,
        store_host: host,
        reconsume_times: 7,
        prepared_transaction_offset: 8,
    };
    let len = record::encoded_len(&host, &host, body.len(), topic.len(), props.len());
    let mut out = vec![0; len];
    record::encode(&mut out, &head, topic, body, &[props]);
    out
}

fn handle() -> Handle<'static> {
    Handle {
        start_offset: 1,
        pop_time: 2,
        invisible_time: 3,
        revive_queue: 4,
        retry: Retry::V1,
        broker_name: b"b",
        queue_id: 5,
        offset: Some(6),
    }
}

fn recoded(r: &[u8], topic: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    push(&mut out, r, topic, &handle(), &mut Vec::new());
    out.split_off(6)
}

#[test]
fn all_but_topic_and_handle_stays() {
    let (long, longer) = ([b'l'; 200], [b'm'; 250]);
    for (from, to) in [
        (&b"%RETRY%g_T"[..], &b"T"[..]),
        (b"%RETRY%g_T", b"LongerThanTheRetryTopic"),
        (&long, b"T"),
        (&long, &longer),
    ] {
        for props in [&b"A\x01b\x02"[..], b"A\x01b", b""] {
            let r = encoded(from, b"the body", props);
            let new = recoded(&r, to);
            let Found::Record(v) = record::read(&new, true) else {
                panic!("no record")
            };
            assert_eq!(v.total, new.len());
            assert_eq!(&new[v.topic.clone()], to);
            assert_eq!(&new[v.body.clone()], b"the body");
            assert_eq!(new[4..v.body.end], r[4..v.body.end]);
            let props = &new[v.props.clone()];
            let found = properties::find(props, POP_CK);
            assert_eq!(found, Some(&b"1 2 3 4 1 b 5 6"[..]));
            let before = properties::find(&r[record::parse(&r).unwrap().props], b"A");
            assert_eq!(properties::find(props, b"A"), before);
        }
    }
}

#[test]
fn a_handle_that_is_there_stays() {
    let r = encoded(b"%RETRY%g_T", b"", b"POP_CK\x01other\x02");
    let new = recoded(&r, b"T");
    let v = record::parse(&new).unwrap();
    assert_eq!(&new[v.topic.clone()], b"T");
    assert_eq!(&new[v.props], b"POP_CK\x01other\x02");
}

#[test]
fn what_has_no_room_stays_as_it_is() {
    let mut full = b"A\x01".to_vec();
    full.resize(properties::MAX_LEN - 10, b'x');
    full.push(2);
    let r = encoded(b"%RETRY%g_T", b"body", &full);
    assert_eq!(recoded(&r, b"T"), r);
    // A topic of more bytes than the record's form has.
    let r = encoded(b"%RETRY%g_T", b"body", b"");
    assert_eq!(recoded(&r, &[b't'; 128]), r);
}
