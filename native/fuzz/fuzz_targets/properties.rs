//! Property strings from any bytes.
//!
//! - `pairs` finds what a byte-by-byte reading by Java's rules finds.
//! - `find` gives the last value of a name.
//! - Pushing the pairs that were read gives a string with the same pairs; so does joining two
//!   strings with the separator.
//! - `Facts`, the send path's one-pass reading, agrees with `find`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_broker::facts::Facts;
use pyrmq_format::properties::{VALUE_END, find, pairs, push};
use pyrmq_fuzz::{Dice, naive_pairs};

fuzz_target!(|data: &[u8]| {
    let got: Vec<_> = pairs(data).collect();
    assert_eq!(got, naive_pairs(data));
    let mut again = Vec::new();
    for (name, value) in &got {
        let last = got.iter().rev().find(|(n, _)| n == name).unwrap().1;
        assert_eq!(find(data, name), Some(last));
        push(&mut again, name, value);
    }
    assert!(again.len() <= data.len() + 1);
    assert!(pairs(&again).eq(got.iter().copied()));

    let (a, b) = data.split_at(Dice::of(data).below(data.len() + 1));
    let joined = [a, &[VALUE_END], b].concat();
    assert!(pairs(&joined).eq(pairs(a).chain(pairs(b))));

    let known = Facts::read(data);
    assert_eq!(known.tags, find(data, b"TAGS"));
    assert_eq!(known.unique_key, find(data, b"UNIQ_KEY"));
    assert_eq!(known.inner_batch, find(data, b"INNER_NUM").is_some());
    let no_wait = find(data, b"WAIT").is_some_and(|v| v.eq_ignore_ascii_case(b"false"));
    assert_eq!(known.no_wait, no_wait);
    let ours = [&b"MSG_REGION"[..], b"TRACE_ON", b"CLUSTER", b"POP_CK"];
    assert_eq!(known.rewrite, ours.iter().any(|n| find(data, n).is_some()));
});
