use super::*;

fn popped() -> Popped<'static> {
    Popped {
        topic: Cow::Borrowed(b"%RETRY%g+t"),
        group: Cow::Borrowed(b"g"),
        broker_name: Cow::Borrowed(b"broker-a"),
        queue_id: 3,
        start_offset: 100,
        pop_time: 1_700_000_000_000,
    }
}

fn check_point(diffs: &[i32]) -> CheckPoint<'_> {
    CheckPoint {
        popped: popped(),
        invisible_time: 60_000,
        diffs,
        bits: 0,
        revive_offset: 0,
        put_again: None,
        suspend: false,
    }
}

fn body(push: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    push(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_check_point_as_fastjson_writes_it() {
    let mut ck = check_point(&[0, 2, 7]);
    assert_eq!(
        body(|out| ck.push_body(out)),
        "{\"bm\":0,\"bn\":\"broker-a\",\"c\":\"g\",\"d\":[0,2,7],\"it\":60000,\"n\":3,\
         \"pt\":1700000000000,\"q\":3,\"reviveTime\":1700000060000,\"ro\":0,\"so\":100,\
         \"sp\":false,\"t\":\"%RETRY%g+t\"}"
    );
    assert_eq!(
        body(|out| ck.push_props(out)),
        "TAGS\u{1}ck\u{2}UNIQ_KEY\u{1}%RETRY%g+t@3@100@g@1700000000000@broker-a@ck\u{2}"
    );
    (ck.bits, ck.revive_offset, ck.put_again) = (1 << 31 | 1, 9, Some(4));
    let text = body(|out| ck.push_body(out));
    assert!(text.contains("\"bm\":-2147483647,") && text.contains(",\"ro\":9,\"rp\":\"4\","));
    assert_eq!(
        (ck.revive_time(), ck.due()),
        (1_700_000_060_000, 1_700_000_059_000)
    );
}

#[test]
fn acks_as_fastjson_writes_them() {
    let mut ack = Ack {
        popped: popped(),
        offsets: &[102],
    };
    assert_eq!(
        body(|out| ack.push_body(out)),
        "{\"ao\":102,\"bn\":\"broker-a\",\"c\":\"g\",\"pt\":1700000000000,\"q\":3,\"so\":100,\
         \"t\":\"%RETRY%g+t\"}"
    );
    let props = |ack: &Ack<'_>| body(|out| ack.push_props(out));
    assert_eq!(
        props(&ack),
        "TAGS\u{1}ack\u{2}UNIQ_KEY\u{1}%RETRY%g+t@3@102@g@1700000000000@broker-a@ack\u{2}"
    );
    ack.offsets = &[100, 107];
    assert!(body(|out| ack.push_body(out)).starts_with("{\"ao\":-1,\"aol\":[100,107],\"bn\""));
    assert_eq!(
        props(&ack),
        "TAGS\u{1}bAck\u{2}UNIQ_KEY\u{1}%RETRY%g+t@3@-1@g@1700000000000@broker-a@ack\u{2}"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let odd: [&[u8]; 3] = [b"plain", b"\"quoted\\\" \x01", "\u{e4}\u{1f600}".as_bytes()];
    let mut seed = 7u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
        (seed >> 33) % below
    };
    let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
    for _ in 0..2000 {
        let mut written: Vec<i32> = (0..1 + next(32)).map(|_| next(1 << 31) as i32).collect();
        written.sort_unstable();
        written.dedup();
        let mut p = popped();
        p.topic = Cow::Borrowed(odd[next(3) as usize]);
        p.group = Cow::Borrowed(odd[next(3) as usize]);
        p.broker_name = Cow::Borrowed(odd[next(3) as usize]);
        (p.queue_id, p.start_offset) = (next(1 << 31) as i32, (next(1 << 31) << 20) as i64);
        let ck = CheckPoint {
            popped: p.clone(),
            invisible_time: next(1 << 31) as i64,
            diffs: &written,
            bits: next(1 << 31) as u32 * 2,
            revive_offset: next(1 << 31) as i64,
            put_again: [None, Some(next(99) as u32)][next(2) as usize],
            suspend: next(2) == 1,
        };
        let text = body(|out| ck.push_body(out));
        assert_eq!(CheckPoint::read(text.as_bytes(), &mut diffs), Ok(ck));
        let written: Vec<i64> = (0..1 + next(40)).map(|_| next(1 << 31) as i64).collect();
        let ack = Ack {
            popped: p,
            offsets: &written,
        };
        let text = body(|out| ack.push_body(out));
        assert_eq!(Ack::read(text.as_bytes(), &mut offsets), Ok(ack));
    }
}

#[test]
fn other_forms_are_read() {
    let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
    // Long names, no list of messages (messages in a row), null, what nobody knows, any order.
    let text = br#"{"t":"t","c":"g","so":5,"n":3,"d":null,"rp":null,"new":{"a":[1]},"bn":null}"#;
    let ck = CheckPoint::read(text, &mut diffs).unwrap();
    assert_eq!((ck.diffs, ck.put_again), (&[0, 1, 2][..], None));
    assert_eq!(ck.index_of(7), Some(2));
    let outside = [ck.index_of(8), ck.index_of(4), ck.index_of(i64::MIN)];
    assert_eq!(outside, [None; 3]);
    let text = br#"{t:'t',c:'g',so:5,n:1,d:[0],rp:'x',}"#;
    assert_eq!(
        CheckPoint::read(text, &mut diffs).unwrap().put_again,
        Some(127)
    );
    let text = br#"{"ackOffset":6,"startOffset":5,"consumerGroup":"g","topic":"t","queueId":1,
                    "popTime":9,"brokerName":"b"}"#;
    let ack = Ack::read(text, &mut offsets).unwrap();
    assert_eq!((ack.offsets, ack.popped.pop_time), (&[6][..], 9));
    assert_eq!(&*ack.popped.broker_name, b"b");
}

#[test]
fn what_is_acknowledged_of_a_check_point() {
    let mut ck = check_point(&[0, 5, 9]);
    ck.bits = 0b010;
    let all: Vec<_> = ck.offsets().collect();
    assert_eq!(all, [(100, false), (105, true), (109, false)]);
}

#[test]
fn bodies_that_are_refused() {
    let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
    let many = format!("{{\"t\":\"t\",\"c\":\"g\",\"d\":[0{}]}}", ",1".repeat(32));
    let long = format!("{{\"t\":\"{}\",\"c\":\"g\"}}", "t".repeat(MAX_NAME + 1));
    let huge = format!(
        "{{\"t\":\"t\",\"c\":\"g\",\"x\":\"{}\"}}",
        "t".repeat(MAX_BODY)
    );
    for bad in [
        "",
        "null",
        "[]",
        "{",
        "{}",
        r#"{"t":"t"}"#,
        r#"{"c":"g"}"#,
        r#"{"t":"t","c":"g","so":-1}"#,
        r#"{"t":"t","c":"g","pt":-1}"#,
        r#"{"t":"t","c":"g","q":-1}"#,
        r#"{"t":"t","c":"g","q":2147483648}"#,
        r#"{"t":"t","c":"g","it":-1}"#,
        r#"{"t":"t","c":"g","n":33}"#,
        r#"{"t":"t","c":"g","n":-1}"#,
        r#"{"t":"t","c":"g","d":[1,0]}"#,
        r#"{"t":"t","c":"g","d":[1,1]}"#,
        r#"{"t":"t","c":"g","d":[-1]}"#,
        r#"{"t":"t","c":"g","d":[2147483648]}"#,
        r#"{"t":"t","c":"g","d":7}"#,
        r#"{"t":"t","c":"g","bm":2147483648}"#,
        r#"{"t":"t","c":"g","so":1.5}"#,
        r#"{"t":"t","c":"g"} x"#,
        &many,
        &long,
        &huge,
    ] {
        assert!(
            CheckPoint::read(bad.as_bytes(), &mut diffs).is_err(),
            "{bad:.80}"
        );
    }
    let many = format!(
        "{{\"t\":\"t\",\"c\":\"g\",\"aol\":[0{}]}}",
        ",1".repeat(MAX_ACKED)
    );
    for bad in [
        "{}",
        r#"{"t":"t","c":"g"}"#,
        r#"{"t":"t","c":"g","ao":-1}"#,
        r#"{"t":"t","c":"g","aol":[1,-1]}"#,
        r#"{"t":"t","c":"g","aol":["x"]}"#,
        &many,
    ] {
        assert!(
            Ack::read(bad.as_bytes(), &mut offsets).is_err(),
            "{bad:.80}"
        );
    }
}

#[test]
fn handles() {
    let text = b"100 1700000000000 60000 3 2 broker-a 5 107";
    let handle = Handle::parse(text).unwrap();
    assert_eq!(
        handle,
        Handle {
            start_offset: 100,
            pop_time: 1_700_000_000_000,
            invisible_time: 60_000,
            revive_queue: 3,
            retry: Retry::V2,
            broker_name: b"broker-a",
            queue_id: 5,
            offset: Some(107),
        }
    );
    let mut out = Vec::new();
    handle.push(&mut out);
    assert_eq!(out, text);
    let seven = Handle::parse(b"100 1 60000 3 0 b 5").unwrap();
    assert_eq!((seven.offset, seven.retry), (None, Retry::No));
    for bad in [
        "",
        "100",
        "100 1 60000 3 0 b",
        "100 1 60000 3 0 b 5 7 8",
        "100 1 60000 3 0 b 5 ",
        "-1 1 60000 3 0 b 5 7",
        "100 -1 60000 3 0 b 5 7",
        "100 1 -1 3 0 b 5 7",
        "100 1 60000 2147483648 0 b 5 7",
        "100 1 60000 3 3 b 5 7",
        "100 1 60000 3 00 b 5 7",
        "100 1 60000 3 0 b -5 7",
        "100 1 60000 3 0 b 5 9223372036854775808",
        "+100 1 60000 3 0 b 5 7",
        "x 1 60000 3 0 b 5 7",
    ] {
        assert_eq!(Handle::parse(bad.as_bytes()), None, "{bad}");
    }
}

#[test]
fn names() {
    let retry = |v2| {
        let mut out = Vec::new();
        push_retry_topic(&mut out, b"t", b"g", v2);
        out
    };
    assert_eq!(
        (retry(false), retry(true)),
        (b"%RETRY%g_t".to_vec(), b"%RETRY%g+t".to_vec())
    );
    assert_eq!(Retry::of(&retry(false)), Retry::V1);
    assert_eq!(Retry::of(&retry(true)), Retry::V2);
    assert_eq!(Retry::of(b"t+t"), Retry::No);
    assert_eq!(revive_topic("C1"), b"rmq_sys_REVIVE_LOG_C1");
    for kind in [Kind::CheckPoint, Kind::Ack, Kind::BatchAck] {
        assert_eq!(Kind::of_tag(kind.tag()), Some(kind));
    }
    assert_eq!(Kind::of_tag(b"Ck"), None);
}

/// Bodies that Apache RocketMQ 5.5.0 wrote.
#[test]
fn apaches_bodies_are_read_and_written_the_same() {
    let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
    let text = "{\"bm\":0,\"bn\":\"broker-a\",\"c\":\"G\",\"d\":[0,1,2],\"it\":3000,\"n\":3,\
                \"pt\":1795860850315,\"q\":0,\"reviveTime\":1795860853315,\"ro\":0,\"so\":0,\
                \"sp\":false,\"t\":\"T\"}";
    let ck = CheckPoint::read(text.as_bytes(), &mut diffs).unwrap();
    assert_eq!(body(|out| ck.push_body(out)), text);
    let key = "TAGS\u{1}ck\u{2}UNIQ_KEY\u{1}T@0@0@G@1795860850315@broker-a@ck\u{2}";
    assert_eq!(body(|out| ck.push_props(out)), key);
    for (text, kind) in [
        (
            "{\"ao\":1,\"bn\":\"broker-a\",\"c\":\"G\",\"pt\":1795860850315,\"q\":0,\"so\":0,\
             \"t\":\"T\"}",
            Kind::Ack,
        ),
        (
            "{\"ao\":-1,\"aol\":[1,2],\"bn\":\"broker-a\",\"c\":\"G\",\"pt\":1795860850315,\
             \"q\":0,\"so\":0,\"t\":\"T\"}",
            Kind::BatchAck,
        ),
    ] {
        let ack = Ack::read(text.as_bytes(), &mut offsets).unwrap();
        assert_eq!(
            (body(|out| ack.push_body(out)), ack.kind()),
            (text.into(), kind)
        );
    }
}
