use super::*;

fn claim(topic: &'static [u8], start_offset: i64) -> Claim<'static> {
    Claim {
        popped: pop::Popped {
            topic: Cow::Borrowed(topic),
            group: Cow::Borrowed(b"g"),
            broker_name: Cow::Borrowed(b"b"),
            queue_id: 1,
            start_offset,
            pop_time: 7,
        },
        invisible_time: 8,
        revive_queue: 3,
    }
}

fn kept(acks: &Acks) -> Vec<(Vec<u8>, i64, Vec<i64>)> {
    let points = acks.points(b"b").map(|(claim, offsets)| {
        let p = claim.popped;
        assert_eq!((&*p.group, &*p.broker_name), (&b"g"[..], &b"b"[..]));
        (p.topic.to_vec(), p.start_offset, offsets.to_vec())
    });
    points.collect()
}

#[test]
fn acks_of_one_check_point_are_one() {
    let mut acks = Acks::default();
    for (topic, start, offset) in [
        (&b"T"[..], 0, 5),
        (b"T", 0, 2),
        (b"T", 9, 9),
        (b"U", 0, 3),
        (b"T", 0, 5),
        (b"T", 0, 7),
    ] {
        acks.add(&claim(topic, start), offset);
    }
    assert_eq!(
        kept(&acks),
        [
            (b"T".to_vec(), 0, vec![2, 5, 7]),
            (b"T".to_vec(), 9, vec![9]),
            (b"U".to_vec(), 0, vec![3]),
        ]
    );
    acks.clear();
    assert!(acks.is_empty() && kept(&acks).is_empty());
}

#[test]
fn a_record_has_thirty_two_and_another_check_point_its_own() {
    let mut acks = Acks::default();
    for offset in (0..40).rev() {
        acks.add(&claim(b"T", 0), offset);
    }
    let kept = kept(&acks);
    assert_eq!(kept[0].2, (8..40).collect::<Vec<_>>());
    assert_eq!(kept[1].2, (0..8).collect::<Vec<_>>());
    for change in [
        |c: &mut Claim<'_>| c.popped.queue_id = 2,
        |c: &mut Claim<'_>| c.popped.pop_time = 8,
        |c: &mut Claim<'_>| c.popped.group = Cow::Borrowed(b"h"),
        |c: &mut Claim<'_>| c.invisible_time = 9,
        |c: &mut Claim<'_>| c.revive_queue = 4,
    ] {
        let mut acks = Acks::default();
        let mut other = claim(b"T", 0);
        acks.add(&other, 1);
        change(&mut other);
        acks.add(&other, 2);
        assert_eq!(acks.points.len(), 2);
    }
}

#[test]
fn so_many_are_kept() {
    let mut acks = Acks::default();
    for n in 0..MAX_KEPT {
        assert!(!acks.is_full());
        acks.add(&claim(b"T", 0), n as i64);
    }
    assert!(acks.is_full());
}

type Read = Vec<(String, i64, Vec<i64>)>;

fn read(body: &str) -> Option<(Option<String>, Read)> {
    let mut all = Vec::new();
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    let broker = batch(body.as_bytes(), |entry| {
        let (mut name, mut offsets) = (Vec::new(), Vec::new());
        let topic = entry.topic(&mut name)?;
        let claim = entry.claim(topic, b"b")?;
        entry.offsets(&mut offsets)?;
        let p = &claim.popped;
        let rest = [
            p.pop_time,
            claim.invisible_time,
            p.queue_id as i64,
            claim.revive_queue as i64,
        ];
        assert_eq!(rest, [7, 8, 1, 3]);
        all.push((text(&p.topic), p.start_offset, offsets));
        Some(())
    })?;
    Some((broker.map(text), all))
}

#[test]
fn batches() {
    let body = r#"{"acks":[{"b":"BQI=","c":"g","it":8,"pt":7,"q":1,"r":"0","rq":3,"so":100,"t":"T"},
        {"bitSet":"AQ==","consumerGroup":"g","invisibleTime":8,"popTime":7,"queueId":1,"retry":"2",
         "reviveQueueId":3,"startOffset":5,"topic":"T"},
        {"b":"AAAAAAAAAIA=","c":"g","it":8,"pt":7,"q":1,"r":"1","rq":3,"so":0,"t":"T"}],
        "brokerName":"b","more":[1]}"#;
    let (broker, all) = read(body).unwrap();
    assert_eq!(broker.as_deref(), Some("b"));
    assert_eq!(
        all,
        [
            ("T".into(), 100, vec![100, 102, 109]),
            ("%RETRY%g+T".into(), 5, vec![5]),
            ("%RETRY%g_T".into(), 0, vec![63]),
        ]
    );
    let without = r#"{"acks":[{"b":"AQ==","c":"g","it":8,"pt":7,"q":1,"rq":3,"so":5,"t":"T"}]}"#;
    assert_eq!(read(without), Some((None, vec![("T".into(), 5, vec![5])])));
}

#[test]
fn batches_that_are_not_plain() {
    let entry = |change: (&str, &str)| {
        let good = r#"{"b":"AQ==","c":"g","it":8,"pt":7,"q":1,"r":"0","rq":3,"so":5,"t":"T"}"#;
        assert!(read(&format!("{{\"acks\":[{good}]}}")).is_some());
        let bad = good.replace(change.0, change.1);
        assert_ne!(bad, good);
        format!("{{\"acks\":[{bad}]}}")
    };
    let many = format!("{{\"acks\":[{}]}}", vec!["{\"c\":\"g\"}"; 300].join(","));
    let bits = format!("\"{}\"", "AAAA".repeat(400));
    for bad in [
        "",
        "{}",
        "[]",
        r#"{"acks":[]}"#,
        r#"{"acks":null}"#,
        r#"{"acks":[{}]}"#,
        &entry(("\"AQ==\"", "\"\"")),
        &entry(("\"AQ==\"", "\"AA==\"")), // no bit
        &entry(("\"AQ==\"", "\"AQ=\"")),
        &entry(("\"AQ==\"", "\"AQ==AQ==\"")),
        &entry(("\"AQ==\"", "\"A===\"")),
        &entry(("\"AQ==\"", "\"A-==\"")),
        &entry(("\"AQ==\"", "null")),
        &entry(("\"AQ==\"", &bits)),
        &entry(("\"c\":\"g\"", "\"c\":\"\"")),
        &entry(("\"c\":\"g\"", "\"c\":\"\\u0041\"")),
        &entry(("\"r\":\"0\"", "\"r\":\"3\"")),
        &entry(("\"q\":1", "\"q\":2147483648")),
        &entry(("\"rq\":3", "\"rq\":2147483648")),
        &entry(("\"so\":5", "\"so\":9223372036854775807")).replace("AQ==", "Ag=="),
        &entry(("\"so\":5", "\"so\":\"x\"")),
        &many,
    ] {
        assert_eq!(read(bad), None, "{bad:.100}");
    }
}
