use super::*;
use proptest::prelude::*;

#[test]
fn a_body_names_what_fits() {
    assert_eq!(body(&[], 10), (b"".to_vec(), 0));
    assert_eq!(body(&[12, 13], 10), (b"12,13,".to_vec(), 2));
    assert_eq!(body(&[12, 13], 6), (b"12,13,".to_vec(), 2));
    assert_eq!(body(&[12, 13], 5), (b"12,".to_vec(), 1));
    assert_eq!(
        body(&[123_456], 2),
        (b"123456,".to_vec(), 1),
        "one at least"
    );
    assert_eq!(body(&[0, i64::MAX], 0), (b"0,".to_vec(), 1));
}

#[test]
fn a_hostile_body_names_numbers_only() {
    let all = |text: &[u8]| named(text).collect::<Vec<_>>();
    assert_eq!(all(b""), [0i64; 0]);
    assert_eq!(all(b",,,"), [0i64; 0]);
    assert_eq!(
        all(b"5"),
        [5],
        "RocketMQ writes the separator, older ones did not"
    );
    assert_eq!(all(b"1,-2,x,3 ,0x4,5.,6"), [1, 6]);
    assert_eq!(
        all(b"9223372036854775807,9223372036854775808,7"),
        [i64::MAX, 7]
    );
    assert_eq!(all(b"\xFF\xFE,8,\0,9\0"), [8]);
    assert_eq!(
        all("٣,4".as_bytes()),
        [4],
        "digits of other scripts are none"
    );
    assert_eq!(all(&b",".repeat(3 * MAX_NAMED)), [0i64; 0]);
    let many = b"1,".repeat(MAX_NAMED + 5);
    assert_eq!(all(&many).len(), MAX_NAMED, "it is bounded");
}

/// What `Ops` says, the long way round.
fn needed(records: &[(i64, i64)], least: i64) -> Option<i64> {
    let first = records.iter().find(|(_, most)| *most >= least);
    first.map(|(offset, _)| *offset)
}

#[test]
fn records_without_halves_are_not_needed() {
    let mut ops = Ops::default();
    assert_eq!(ops.needed_from(0), None);
    ops.note(0, -1);
    assert_eq!(ops.needed_from(0), None);
    ops.note(1, 5);
    assert_eq!(ops.needed_from(5), Some(1));
    assert_eq!(ops.needed_from(6), None);
}

#[test]
fn spans_end() {
    let mut ops = Ops::default();
    for n in 0..SPAN * 3 {
        ops.note(n, n);
    }
    assert_eq!(ops.spans.len(), 3);
    assert_eq!(ops.needed_from(SPAN + 7), Some(SPAN));
    assert_eq!(ops.spans.len(), 2, "what is not needed is forgotten");
    ops.note(SPAN * 5, 1 << 40);
    assert_eq!(
        ops.spans.len(),
        3,
        "a place that was left out ends a span too"
    );
}

proptest! {
    #[test]
    fn bodies_name_all_in_order(
        offsets in prop::collection::vec(0..=i64::MAX, 0..200),
        max in 1usize..300,
    ) {
        let (mut rest, mut seen) = (&offsets[..], Vec::new());
        while !rest.is_empty() {
            let (text, taken) = body(rest, max);
            prop_assert!(taken > 0 && (text.len() <= max || taken == 1));
            prop_assert_eq!(named(&text).collect::<Vec<_>>(), &rest[..taken]);
            if taken < rest.len() {
                let next = rest[taken].to_string().len() + 1;
                prop_assert!(text.len() + next > max, "there was room");
            }
            seen.extend(named(&text));
            rest = &rest[taken..];
        }
        prop_assert_eq!(seen, offsets);
    }

    #[test]
    fn any_body_is_read(text in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(named(&text).all(|offset| offset >= 0));
    }

    /// What is given up is never needed, and not much is kept that is not.
    #[test]
    fn spans_are_safe(
        steps in prop::collection::vec((0i64..3, -1i64..5000, 0i64..400), 1..3000),
    ) {
        let mut ops = Ops::default();
        let (mut records, mut offset, mut least) = (Vec::new(), 0, 0);
        for (gap, most, up) in steps {
            offset += 1 + gap / 2;
            ops.note(offset, most);
            records.push((offset, most));
            if up > 390 {
                least += up;
                let (want, got) = (needed(&records, least), ops.needed_from(least));
                prop_assert_eq!(want.is_some(), got.is_some());
                if let (Some(want), Some(got)) = (want, got) {
                    prop_assert!(got <= want && want - got < SPAN);
                }
            }
        }
    }
}
