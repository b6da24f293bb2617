use super::*;
use proptest::prelude::*;

fn head() -> Head {
    Head {
        queue_id: 3,
        flag: 0,
        queue_offset: 5,
        phys: 1024,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        born_host: Host::new("127.0.0.1:54321".parse().unwrap()),
        store_timestamp: 1_700_000_000_005,
        store_host: Host::new("192.168.1.10:10911".parse().unwrap()),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    }
}

fn build(head: &Head, topic: &[u8], body: &[u8], props: &[u8]) -> Vec<u8> {
    let n = encoded_len(
        &head.born_host,
        &head.store_host,
        body.len(),
        topic.len(),
        props.len(),
    );
    let mut out = vec![0; n];
    let (a, b) = props.split_at(props.len() / 2);
    encode(&mut out, head, topic, body, &[a, b]);
    out
}

#[test]
fn worked_example_byte_for_byte() {
    let props =
        b"KEYS\x01order-42\x02TAGS\x01TagA\x02UNIQ_KEY\x01C0A8010A1F9018B4AAC247B760000000\x02";
    let got = build(&head(), b"TopicTest", b"Hello RocketMQ", props);
    let expected = concat!(
        "000000b4daa320a769c865ed0000000300000000000000000000000500000000000004000000000000000",
        "18bcfe568007f0000010000d4310000018bcfe56805c0a8010a00002a9f000000000000000000000000",
        "0000000e48656c6c6f20526f636b65744d5109546f70696354657374",
        "00424b455953016f726465722d3432025441475301546167410255",
        "4e49515f4b455901433041383031304131463930313842344141433234374237363030303030303002"
    );
    let hex: String = got.iter().map(|x| format!("{x:02x}")).collect();
    assert_eq!(hex, expected);
    let Found::Record(v) = read(&got, true) else {
        panic!("not a record")
    };
    assert_eq!((v.total, v.queue_offset, v.phys), (180, 5, 1024));
    assert_eq!(&got[v.topic.clone()], b"TopicTest");
    assert_eq!(&got[v.props.clone()], props);
    assert_eq!(peek_store_timestamp(&got), Some(1_700_000_000_005));
}

#[test]
fn blank_record() {
    let mut rest = vec![0xAA; 100];
    rest[..8].copy_from_slice(&blank(100));
    assert_eq!(&rest[..8], &[0, 0, 0, 100, 0xCB, 0xD4, 0x31, 0x94]);
    assert_eq!(read(&rest, true), Found::Blank);
}

#[test]
fn v2_for_long_topics() {
    let topic = vec![b'x'; 200];
    let got = build(&head(), &topic, b"b", b"");
    assert_eq!(got.len(), 91 + 1 + 200 + 1);
    let Found::Record(v) = read(&got, true) else {
        panic!()
    };
    assert_eq!(&got[v.topic.clone()], &topic[..]);
}

proptest! {
    #[test]
    fn round_trip(body in prop::collection::vec(any::<u8>(), 0..300),
                  topic_len in 1usize..255, props in prop::collection::vec(any::<u8>(), 0..300),
                  born6 in any::<bool>(), store6 in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let mut h = head();
        if born6 { h.born_host = Host::new("[2001:db8::1]:1".parse().unwrap()); }
        if store6 { h.store_host = Host::new("[2001:db8::2]:2".parse().unwrap()); }
        let topic = vec![b't'; topic_len];
        let rec = build(&h, &topic, &body, &props);
        let Found::Record(v) = read(&rec, true) else { panic!("invalid") };
        prop_assert_eq!(&rec[v.body.clone()], &body[..]);
        prop_assert_eq!(&rec[v.topic.clone()], &topic[..]);
        prop_assert_eq!(&rec[v.props.clone()], &props[..]);
        prop_assert_eq!(v.store_timestamp, h.store_timestamp);
        // A torn record is never taken for one.
        let torn = &rec[..cut.index(rec.len())];
        prop_assert!(matches!(read(torn, true), Found::Invalid(_)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut b in prop::collection::vec(any::<u8>(), 0..300), v2: bool) {
        if b.len() >= 8 {
            let n = b.len() as i32;
            b[..4].copy_from_slice(&n.to_be_bytes());
            b[4..8].copy_from_slice(&(if v2 { MAGIC_V2 } else { MAGIC_V1 }).to_be_bytes());
        }
        let _ = read(&b, true);
        let _ = read(&b, false);
    }
}
