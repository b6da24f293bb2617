use super::super::testing::{Rig, Sent, body_of};
use super::*;
use proptest::prelude::*;
use pyrmq_format::properties::push;

#[test]
fn fields_of_a_half() {
    let sent = Sent::new("K1")
        .with(b"TAGS", "a")
        .with(b"CHECK_IMMUNITY_TIME_IN_SECONDS", "30")
        .with(b"TRANSACTION_CHECK_TIMES", "4")
        .with(b"TRAN_PREPARED_QUEUE_OFFSET", "12");
    let props = sent.props();
    let f = Fields::read(&props);
    assert!(f.is_complete());
    assert_eq!((f.group, f.topic), (&b"PG_test"[..], &b"Orders"[..]));
    assert_eq!((f.queue_id, f.unique_key), (Some(1), &b"K1"[..]));
    assert_eq!((f.checks, f.immunity_seconds()), (4, 30));
    assert_eq!((f.stands_for, f.tags_code()), (Some(12), 97));
}

#[test]
fn fields_that_say_nothing() {
    let read = |name: &str, value: &str| {
        let mut props = Vec::new();
        push(&mut props, name.as_bytes(), value.as_bytes());
        let f = Fields::read(&props);
        (
            f.queue_id,
            f.checks,
            f.immunity_seconds(),
            f.stands_for,
            f.is_complete(),
        )
    };
    let nothing = (None, 0, -1, None, false);
    assert_eq!(read("X", "1"), nothing);
    for bad in ["-1", "x", "4294967296", "1 ", ""] {
        assert_eq!(read("REAL_QID", bad), nothing, "{bad:?}");
    }
    for bad in ["-1", "65536", "many"] {
        assert_eq!(read("TRANSACTION_CHECK_TIMES", bad), nothing);
    }
    for bad in ["-1", "x", "99999999999999999999"] {
        assert_eq!(read("CHECK_IMMUNITY_TIME_IN_SECONDS", bad), nothing);
    }
    let far = read("CHECK_IMMUNITY_TIME_IN_SECONDS", "9999999999");
    assert_eq!(far.2, i32::MAX);
    assert_eq!(read("TRAN_PREPARED_QUEUE_OFFSET", "5.0"), nothing);
}

#[test]
fn is_complete_needs_all_three() {
    let mut sent = Sent::new("K");
    sent.group.clear();
    assert!(!Fields::read(&sent.props()).is_complete());
    sent = Sent::new("K");
    sent.topic.clear();
    assert!(!Fields::read(&sent.props()).is_complete());
    sent = Sent::new("");
    assert!(
        Fields::read(&sent.props()).is_complete(),
        "a unique key it need not have"
    );
}

#[test]
fn a_record_is_read_where_one_starts_only() {
    let rig = Rig::new();
    let done = rig.send(&Sent::new("K"));
    let half = Half::read(rig.store(), done.phys).unwrap().unwrap();
    assert_eq!(half.phys(), done.phys);
    assert_eq!(half.topic(), super::super::HALF_TOPIC);
    assert_eq!(half.body(), body_of(b"K"));
    assert_eq!(half.bytes().len(), done.size);
    for phys in [done.phys + 1, done.end(), 1 << 40, u64::MAX] {
        assert!(Half::read(rig.store(), phys).unwrap().is_none(), "{phys}");
    }
}

#[test]
fn copies_are_known_by_who_made_them_and_when() {
    let rig = Rig::new();
    let read = |sent: &Sent| {
        Half::read(rig.store(), rig.put_half(sent).phys)
            .unwrap()
            .unwrap()
    };
    let one = read(&Sent::new("K"));
    let same = read(&Sent::new("K").with(b"TRANSACTION_CHECK_TIMES", "1"));
    assert!(one.is_same_transaction(&same) && one.key() == same.key());
    let mut others = vec![
        Sent::new("L"),
        Sent::new("K"),
        Sent::new("K"),
        Sent::new("K"),
    ];
    others[1].group = b"PG_other".into();
    others[2].topic = b"Other".into();
    others[3].born += 1;
    for other in &others {
        assert!(!one.is_same_transaction(&read(other)));
    }
    let nameless = read(&Sent::new(""));
    assert!(
        !nameless.is_same_transaction(&read(&Sent::new(""))),
        "without a key nobody knows"
    );
}

#[test]
fn what_a_client_may_not_set() {
    for name in [
        "__transactionId__",
        "REAL_TOPIC",
        "REAL_QID",
        "TRANSACTION_CHECK_TIMES",
        "TRAN_PREPARED_QUEUE_OFFSET",
    ] {
        assert!(is_half_only(name.as_bytes()));
    }
    for name in ["UNIQ_KEY", "PGROUP", "CHECK_IMMUNITY_TIME_IN_SECONDS", ""] {
        assert!(!is_half_only(name.as_bytes()));
    }
}

proptest! {
    #[test]
    fn any_property_string_is_read(props in prop::collection::vec(any::<u8>(), 0..300)) {
        let f = Fields::read(&props);
        prop_assert!(f.immunity_seconds() >= -1);
        f.tags_code();
    }

    /// Without a name, everything else stays, in order.
    #[test]
    fn pairs_are_left_out(
        pairs in prop::collection::vec(("[A-D]{1,2}", "[x-z0-9]{1,4}"), 0..12),
        without in "[A-D]{1,2}",
    ) {
        let rig_props: Vec<u8> = pairs.iter().fold(Vec::new(), |mut out, (n, v)| {
            properties::push(&mut out, n.as_bytes(), v.as_bytes());
            out
        });
        let mut want = Vec::new();
        for (n, v) in pairs.iter().filter(|(n, _)| *n != without) {
            properties::push(&mut want, n.as_bytes(), v.as_bytes());
        }
        SHARED.with(|rig| {
            let done = rig.put(b"Any", &rig_props, b"x", 1);
            let half = Half::read(rig.store(), done.phys).unwrap().unwrap();
            prop_assert_eq!(half.props_without(&[without.as_bytes()]), want);
            Ok(())
        })?;
    }
}

thread_local! {
    static SHARED: Rig = Rig::new();
}
