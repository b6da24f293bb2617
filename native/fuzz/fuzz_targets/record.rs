//! Commit-log records from any bytes.
//!
//! - What is taken for a record lies inside of the input, its parts follow each other without
//!   overlap, and the last one ends where totalSize says.
//! - The CRC check only refuses; it never changes what is read.
//! - No proper prefix of a record is taken for one (a torn write).
//! - Encoding what was read gives the same bytes, unless the record has what we never write.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::crc31;
use pyrmq_format::host::Host;
use pyrmq_format::record::{self, Found, Head, MAGIC_V2, MIN_LEN, View, sys_flag};
use pyrmq_fuzz::Dice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fuzz_target!(|data: &[u8]| {
    check(data);
    // The same bytes with the frame of a record around them, so that every input gets inside.
    if data.len() >= MIN_LEN {
        let mut framed = data.to_vec();
        framed[..4].copy_from_slice(&(data.len() as i32).to_be_bytes());
        framed[4..7].copy_from_slice(&MAGIC_V2.to_be_bytes()[..3]);
        framed[7] = if data[7] & 1 == 0 { 0xA7 } else { 0xAB };
        check(&framed);
        if let Found::Record(v) = record::read(&framed, false) {
            let crc = crc31(&framed[v.body.clone()]);
            framed[8..12].copy_from_slice(&crc.to_be_bytes());
            check(&framed);
            let checked = record::read(&framed, true);
            assert_eq!(checked, Found::Record(v), "its CRC fits now");
        }
    }
});

fn check(b: &[u8]) {
    let plain = record::read(b, false);
    let checked = record::read(b, true);
    let Found::Record(v) = &plain else {
        assert_eq!(plain, checked);
        return;
    };
    match &checked {
        Found::Record(c) => assert_eq!(v, c),
        Found::Invalid("body CRC differs") => {}
        other => panic!("{other:?}"),
    }
    assert!((MIN_LEN..=b.len()).contains(&v.total));
    let parts = [&v.body, &v.topic, &v.props];
    let mut at = 72;
    for part in parts {
        assert!(part.start > at && part.end >= part.start);
        at = part.end;
    }
    assert_eq!(at, v.total);
    assert_eq!(record::peek_store_timestamp(b), Some(v.store_timestamp));
    let r = &b[..v.total];
    assert_eq!(
        record::read(r, false),
        plain,
        "what follows does not matter"
    );
    let torn = &r[..Dice::of(r).below(r.len())];
    assert!(matches!(record::read(torn, true), Found::Invalid(_)));
    if let (Found::Record(_), Some(born), Some(store)) = (
        &checked,
        host(r, 48, v.sys_flag & sys_flag::BORN_HOST_V6 != 0),
        host(
            r,
            record::store_timestamp_at(v.sys_flag) + 8,
            v.sys_flag & sys_flag::STORE_HOST_V6 != 0,
        ),
    ) {
        encode_again(r, v, born, store);
    }
}

/// The host at `at`, None if it is one that has no address of its own form.
fn host(r: &[u8], at: usize, v6: bool) -> Option<Host> {
    let (ip, end) = if v6 {
        let raw: [u8; 16] = r[at..at + 16].try_into().unwrap();
        let ip = Ipv6Addr::from(raw);
        if ip.to_ipv4_mapped().is_some() {
            return None;
        }
        (IpAddr::V6(ip), at + 16)
    } else {
        let raw: [u8; 4] = r[at..at + 4].try_into().unwrap();
        (IpAddr::V4(Ipv4Addr::from(raw)), at + 4)
    };
    let port = i32::from_be_bytes(r[end..end + 4].try_into().unwrap());
    Some(Host::new(SocketAddr::new(ip, u16::try_from(port).ok()?)))
}

fn encode_again(r: &[u8], v: &View, born_host: Host, store_host: Host) {
    let long = v.topic.len() > 127;
    let is_v2 = r[4..8] == MAGIC_V2.to_be_bytes();
    let crc_ours = r[8..12] == crc31(&r[v.body.clone()]).to_be_bytes();
    if long != is_v2 || !crc_ours {
        return; // a short topic in V2; an empty body, whose CRC nobody checks
    }
    let head = Head {
        queue_id: v.queue_id,
        flag: v.flag,
        queue_offset: v.queue_offset,
        phys: v.phys as u64,
        sys_flag: v.sys_flag,
        born_timestamp: v.born_timestamp,
        born_host,
        store_timestamp: v.store_timestamp,
        store_host,
        reconsume_times: v.reconsume_times,
        prepared_transaction_offset: v.prepared_transaction_offset,
    };
    let n = record::encoded_len(
        &born_host,
        &store_host,
        v.body.len(),
        v.topic.len(),
        v.props.len(),
    );
    assert_eq!(n, r.len());
    let mut again = vec![0; n];
    let (a, b) = r[v.props.clone()].split_at(v.props.len() / 2);
    record::encode(
        &mut again,
        &head,
        &r[v.topic.clone()],
        &r[v.body.clone()],
        &[a, b],
    );
    assert_eq!(again, r);
}
