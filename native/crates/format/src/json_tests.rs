use super::*;

/// No search and no copy reads behind a text, whatever its length.
#[test]
#[cfg_attr(miri, ignore)]
fn nothing_behind_a_text_is_read() {
    let mut pages = crate::page_end::PageEnd::new();
    for len in 0..100 {
        for end in [
            &b""[..],
            b"\\",
            b"\\u00",
            b"\\n",
            b"\\u0001",
            b"\\ud83d",
            b"\"",
            b"\"}",
        ] {
            let text = [b"{\"k\":\"", &vec![b'x'; len][..], end].concat();
            let text = pages.holding(&text);
            for at in [0, 1, text.len() / 2, text.len(), text.len() + 9] {
                let found = end_of_plain(text, at, b'\'').min(next(text, at, b'\''));
                assert!(found >= at);
            }
            let whole = parse(text, MAX_VALUES).is_ok();
            assert_eq!(whole, end == b"\"}");
            assert_eq!(Scanner::new(text).skip(0).is_ok(), whole);
            let raw = Raw {
                start: 6,
                end: text.len() as u32,
                escaped: true,
                quoted: true,
            };
            let mut out = Vec::new();
            let meant = raw.unescape(text, &mut out);
            assert_eq!(meant.is_ok(), !matches!(end, b"\\" | b"\\u00"));
            assert!(out.starts_with(&vec![b'x'; len]) && out.len() <= raw.bytes(text).len());
        }
    }
}

#[test]
fn what_fastjson_writes() {
    let v = parse(
        br#"{"a":{0:5,1:-6},"b":{{"q":1}:2},'c':[1.5,null,true,],d:"\u00e4\ud83d\ude00\n"}"#,
        MAX_VALUES,
    );
    let Value::Object(m) = v.unwrap() else {
        panic!()
    };
    assert_eq!(
        m[0].1,
        Value::Object(vec![
            (Value::Int(0), Value::Int(5)),
            (Value::Int(1), Value::Int(-6)),
        ])
    );
    let key = Value::Object(vec![(Value::Text("q".into()), Value::Int(1))]);
    assert_eq!(m[1].1, Value::Object(vec![(key, Value::Int(2))]));
    assert_eq!(
        m[2].1,
        Value::List(vec![Value::Float(1.5), Value::Null, Value::Bool(true)])
    );
    assert_eq!(m[3].1, Value::Text("ä😀\n".into()));
}

#[test]
fn where_members_stand() {
    let text = br#" { "a" : {"b":[1, 2]} , 5:1.0,{"q":1}:"x\"}" ,}"#;
    let found = members(text).unwrap();
    let parts: Vec<(&[u8], &[u8])> = found
        .iter()
        .map(|(_, start, value, end)| (&text[*start..*end], &text[*value..*end]))
        .collect();
    let expected: [(&[u8], &[u8]); 3] = [
        (br#""a" : {"b":[1, 2]}"#, br#"{"b":[1, 2]}"#),
        (b"5:1.0", b"1.0"),
        (br#"{"q":1}:"x\"}""#, br#""x\"}""#),
    ];
    assert_eq!(parts, expected);
    assert_eq!(found[1].0, Value::Int(5));
    assert!(members(b"{}").unwrap().is_empty());
    for bad in ["", "[]", "{", "{\"a\":1", "{} {}", "{\"a\":1]"] {
        assert!(members(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn what_is_refused() {
    for bad in [
        "",
        "{",
        "{\"a\"}",
        "{\"a\":",
        "[1",
        "\"x",
        "{} {}",
        "{\"a\":\"\\u00g0\"}",
        "{\"\\",
    ] {
        assert!(parse(bad.as_bytes(), MAX_VALUES).is_err(), "{bad}");
        assert!(
            Scanner::new(bad.as_bytes()).skip(0).is_err() || bad.len() > 3,
            "{bad}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(
        parse(deep.as_bytes(), MAX_VALUES)
            .unwrap_err()
            .contains("too deep")
    );
    assert!(
        Scanner::new(deep.as_bytes())
            .skip(0)
            .unwrap_err()
            .contains("too deep")
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(b in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = parse(&b, MAX_VALUES);
        let _ = Scanner::new(&b).skip(0);
    }

    #[test]
    fn every_processor_finds_the_same(
        chunk in proptest::array::uniform16(proptest::sample::select(b"\"\\'a\x00\xff\xa2\xdc".to_vec())),
        a in proptest::prelude::any::<u8>(),
    ) {
        for (a, b) in [(b'"', b'\\'), (b'\\', b'\\'), (a, chunk[3]), (a, a)] {
            proptest::prop_assert_eq!(hits_16(&chunk, a, b), plain_hits_16(&chunk, a, b));
        }
    }

    /// Against one byte after the other, from any place on.
    #[test]
    fn the_next_of_two(text in "[ab\"\\\\]{0,70}|b{0,70}[\"\\\\]?", at in 0usize..80) {
        let text = text.as_bytes();
        let find = |wanted: &[u8]| {
            let rest = text.get(at..).unwrap_or_default();
            rest.iter().position(|c| wanted.contains(c)).map_or(at.max(text.len()), |n| at + n)
        };
        proptest::prop_assert_eq!(end_of_plain(text, at, b'"'), find(b"\"\\"));
        proptest::prop_assert_eq!(next(text, at, b'"'), find(b"\""));
    }

    /// Against one byte after the other.
    #[test]
    fn escapes(text in "([a-zäß€]{0,40}|\\\\\\\\u00[0-7][0-9a-f]|\\\\\\\\[nrtbf/\"x]|\\\\\\\\u[0-9a-fD]{2,4}){0,6}\\\\\\\\?") {
        let raw = Raw { start: 0, end: text.len() as u32, escaped: true, quoted: true };
        let mut out = b"before".to_vec();
        let read = raw.unescape(text.as_bytes(), &mut out);
        let mut expected = b"before".to_vec();
        let mut rest = text.as_bytes();
        let plain = loop {
            match rest {
                [] => break Ok(()),
                [b'\\', after @ ..] => {
                    let (mut place, mut after) = ([0; 4], after);
                    match escape(&mut after, &mut place) {
                        Ok(n) => expected.extend_from_slice(&place[..n]),
                        Err(e) => break Err(e),
                    }
                    rest = after;
                }
                [b, after @ ..] => {
                    expected.push(*b);
                    rest = after;
                }
            }
        };
        proptest::prop_assert_eq!(&read, &plain);
        proptest::prop_assert_eq!(out, expected);
    }

    #[test]
    fn json_like_text(s in "[\\[\\]{}\",:\\\\u0-9a'nulltrue ]{0,80}") {
        let _ = parse(s.as_bytes(), MAX_VALUES);
        let _ = Scanner::new(s.as_bytes()).skip(0);
    }
}
