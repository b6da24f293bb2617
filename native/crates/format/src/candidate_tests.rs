use super::*;
use crate::host::Host;
use crate::record::{self, Head, blank, encode, encoded_len};
use proptest::prelude::*;

fn host(v6: bool) -> Host {
    let text = if v6 {
        "[2001:db8::1]:10911"
    } else {
        "10.1.2.3:10911"
    };
    Host::new(text.parse().unwrap())
}

fn record(born_v6: bool, store_v6: bool, topic: &[u8], body: &[u8], props: &[u8]) -> Vec<u8> {
    let (born, store) = (host(born_v6), host(store_v6));
    let len = encoded_len(&born, &store, body.len(), topic.len(), props.len());
    let mut out = vec![0; len];
    let head = Head {
        queue_id: 3,
        flag: 1,
        queue_offset: 77,
        phys: 123_456,
        sys_flag: 0,
        born_timestamp: 1_000,
        born_host: born,
        store_timestamp: 2_000,
        store_host: store,
        reconsume_times: 5,
        prepared_transaction_offset: 6,
    };
    encode(&mut out, &head, topic, body, &[props]);
    out
}

#[test]
fn what_can_start() {
    let r = record(false, false, b"T", b"", b"");
    let len = r.len() as u64;
    assert_eq!(r.len(), MIN_LEN + 1);
    assert_eq!(start(&r, len), Start::Record(r.len()));
    assert_eq!(start(&r[..8], u64::MAX), Start::Record(r.len()));
    assert_eq!(start(&r, len - 1), Start::BadLength(len as i32));
    assert_eq!(start(&r[..7], len), Start::Short);
    assert_eq!(start(&r, 7), Start::Short);
    assert_eq!(start(&[0; 8], 100), Start::Zeros);
    assert_eq!(
        start(&[0, 0, 0, 0, 1, 2, 3, 4], 100),
        Start::NoMagic(0x0102_0304)
    );
    assert_eq!(start(&[0, 0, 0, 9, 0, 0, 0, 0], 100), Start::NoMagic(0));
    let rest = blank(40);
    assert_eq!(start(&rest, 40), Start::Blank(40));
    assert_eq!((blank_len(&rest), blank_len(&r)), (Some(40), None));
    for total in [MIN_LEN as i32 - 1, 0, -1, i32::MIN] {
        let mut bad = r.clone();
        bad[..4].copy_from_slice(&total.to_be_bytes());
        assert_eq!(start(&bad, u64::MAX), Start::BadLength(total));
        assert_eq!(stated_len(&bad, u64::MAX), None);
    }
    assert_eq!(
        (stated_phys(&r), stated_phys(&r[..35])),
        (Some(123_456), None)
    );
}

#[test]
fn a_topic_length_of_v1_is_signed() {
    let mut r = record(false, false, &[b'T'; 127], b"body", b"");
    assert!(Layout::of(&r).parts(&r).is_some());
    r[92] = 200;
    r.resize(r.len() + 73, 0);
    let total = r.len() as i32;
    r[..4].copy_from_slice(&total.to_be_bytes());
    assert_eq!(Layout::of(&r).parts(&r), None);
}

#[test]
fn magic_codes_in_order_and_whole() {
    let mut bytes = vec![0; 64];
    bytes[4..8].copy_from_slice(&MAGIC_V1.to_be_bytes());
    bytes[10..14].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    bytes[20..23].copy_from_slice(&MAGIC_V1.to_be_bytes()[..3]);
    bytes[30..34].copy_from_slice(&MAGIC_V2.to_be_bytes());
    bytes[61..64].copy_from_slice(&MAGIC_V2.to_be_bytes()[..3]);
    let all: Vec<_> = MagicFinder::with_blanks().positions(&bytes).collect();
    assert_eq!(all, [4, 10, 30]);
    let records: Vec<_> = MagicFinder::records().positions(&bytes).collect();
    assert_eq!(records, [4, 30]);
}

proptest! {
    /// Whatever is encoded keeps the rules, and its parts are where they were put.
    #[test]
    fn an_encoded_record_is_a_candidate(
        born_v6: bool,
        store_v6: bool,
        topic in prop::collection::vec(1u8.., 1..256),
        body in prop::collection::vec(any::<u8>(), 0..400),
        props in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let r = record(born_v6, store_v6, &topic, &body, &props);
        prop_assert_eq!(start(&r, r.len() as u64), Start::Record(r.len()));
        let layout = Layout::of(&r[..HEAD_LEN.min(r.len())]);
        prop_assert!(layout.body_len + 4 <= HEAD_LEN);
        prop_assert_eq!(get_i64(&r, layout.store_timestamp), 2_000);
        prop_assert_eq!(get_i32(&r, layout.reconsume_times), 5);
        prop_assert_eq!(get_i64(&r, layout.prepared_transaction_offset), 6);
        let parts = layout.parts(&r).unwrap();
        prop_assert_eq!(&r[parts.body], &body[..]);
        prop_assert_eq!(&r[parts.topic], &topic[..]);
        prop_assert_eq!(&r[parts.props], &props[..]);
        prop_assert!(record::is_the_one(&r, 3, 77, 123_456));
        // One byte more or less, and nothing adds up.
        for total in [r.len() - 1, r.len() + 1] {
            let read = |at: usize, width: usize| Ok(r.get(at..at + width).map(length));
            let sum = layout.parts_by::<()>(total, read);
            prop_assert_eq!(sum, Ok(None));
        }
    }

    /// Any bytes: parts that are found lie inside, follow each other and fill the record; every magic
    /// code is found, and nothing else.
    #[test]
    fn any_bytes(
        mut bytes in prop::collection::vec(any::<u8>(), MIN_LEN..400),
        v2: bool,
        small in any::<[u8; 8]>(),
        places in prop::collection::vec(0usize..400, 0..6),
    ) {
        bytes[4..8].copy_from_slice(&if v2 { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
        // Small lengths, so that some of them fit.
        let at = Layout::of(&bytes).body_len.min(MIN_LEN - 4);
        bytes[at..at + 4].copy_from_slice(&[0, 0, 0, small[0] % 16]);
        if let Some(parts) = Layout::of(&bytes).parts(&bytes) {
            prop_assert!(parts.body.end < parts.topic.start && parts.topic.end < parts.props.start);
            prop_assert_eq!(parts.props.end, bytes.len());
        }
        for (i, place) in places.into_iter().enumerate() {
            let magic = [MAGIC_V1, MAGIC_V2, MAGIC_BLANK][i % 3].to_be_bytes();
            if let Some(to) = bytes.get_mut(place..place + 4) {
                to.copy_from_slice(&magic);
            }
        }
        let codes = [MAGIC_V1, MAGIC_V2, MAGIC_BLANK].map(i32::to_be_bytes);
        let naive: Vec<_> = (0..bytes.len() - 3)
            .filter(|&at| codes.iter().any(|c| bytes[at..at + 4] == c[..]))
            .collect();
        let found: Vec<_> = MagicFinder::with_blanks().positions(&bytes).collect();
        prop_assert_eq!(found, naive);
    }
}
