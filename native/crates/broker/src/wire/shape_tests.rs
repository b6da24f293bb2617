//! Shapes change nothing but the time: what is read with them is what `Header::read` reads.

use super::*;
use proptest::prelude::*;

fn general(text: &[u8]) -> Result<Header, String> {
    let mut header = Header::default();
    let read = header.read(Codec::Json, text, text.len());
    read.map(|_| header).map_err(|e| e.to_string())
}

fn alike(shapes: &mut Shapes, text: &[u8]) -> Result<Header, String> {
    // As it is after another header: nothing of that may stay.
    let mut header = Header {
        code: 1,
        language: 2,
        version: 3,
        opaque: 4,
        flag: 5,
        remark: Some(Raw::default()),
        ext: vec![Default::default(); 3],
    };
    let read = shapes.read_header(&mut header, Codec::Json, text, text.len());
    read.map(|_| header).map_err(|e| e.to_string())
}

fn framed(header: &str) -> Vec<u8> {
    [b"........", header.as_bytes()].concat()
}

fn java(opaque: i32, topic: &str, props: &str) -> Vec<u8> {
    framed(&format!(
        "{{\"code\":310,\"extFields\":{{\"a\":\"g\",\"b\":\"{topic}\",\"i\":\"{props}\",\"j\":\"0\"}},\
         \"flag\":0,\"language\":\"JAVA\",\"opaque\":{opaque},\"serializeTypeCurrentRPC\":\"JSON\",\
         \"version\":479}}"
    ))
}

fn go(opaque: i32, topic: &str, props: &str) -> Vec<u8> {
    framed(&format!(
        "{{\"code\":10,\"language\":\"GO\",\"version\":317,\"opaque\":{opaque},\"flag\":0,\"remark\":\"\",\
         \"extFields\":{{\"properties\":\"{props}\",\"topic\":\"{topic}\"}}}}"
    ))
}

#[test]
fn the_second_header_of_a_client_is_read_by_its_shape() {
    for write in [java, go] {
        let mut shapes = Shapes::default();
        let first = write(7, "T", "A\\u0001b\\u0002");
        assert_eq!(alike(&mut shapes, &first), general(&first));
        for second in [
            write(-2_147_483_648, "", ""),
            write(2_147_483_647, "Another", "K\\u0001\\\"q\\\" \u{e4}\\u0002"),
            write(12, "T", &"x".repeat(9000)),
        ] {
            let mut header = Header::default();
            let by_shape = shapes.read(&second, &mut header);
            let quote = second.windows(2).any(|two| two == b"\\\"");
            assert_eq!(
                by_shape, !quote,
                "an escaped quote is left to the general reader"
            );
            assert_eq!(alike(&mut shapes, &second), general(&second));
        }
    }
}

#[test]
fn clients_in_turns_have_their_shapes() {
    let mut shapes = Shapes::default();
    for round in 0..3 {
        for write in [java, go] {
            let text = write(round, "T", "p");
            assert_eq!(shapes.read(&text, &mut Header::default()), round > 0);
            assert_eq!(alike(&mut shapes, &text), general(&text));
        }
    }
}

#[test]
fn what_differs_outside_of_the_holes_has_another_shape() {
    let mut shapes = Shapes::default();
    let first = java(7, "T", "p");
    alike(&mut shapes, &first).unwrap();
    let text = String::from_utf8(first).unwrap();
    for (from, to) in [
        ("310", "311"),
        ("\"flag\":0", "\"flag\":2"),
        ("JAVA", "OMS"),
        ("\"opaque\":7", "\"opaque\":\"7\""),
        ("\"opaque\":7", "\"opaque\":99999999999"),
        ("\"opaque\":7", "\"opaque\":null"),
        ("\"opaque\":7", "\"opaque\":7a"),
        ("\"opaque\":7", "\"opaque\":"),
        ("\"b\":\"T\"", "\"b\":null"),
        ("\"b\":\"T\"", "\"b\":'T'"),
        ("\"b\"", "\"bb\""),
        ("479}", "479} "),
        ("479}", "479}}"),
        ("479}", "479"),
        ("\"p\"", "\"p\\\""),
        ("\"p\"", "\"p\\\\\""),
    ] {
        let other = text.replacen(from, to, 1);
        assert_ne!(other, text);
        let other = other.as_bytes();
        assert_eq!(alike(&mut shapes, other), general(other), "{from} {to}");
    }
}

#[test]
fn a_peer_that_never_writes_two_headers_alike_is_learnt_from_rarely() {
    let mut shapes = Shapes::default();
    for n in 0..1000 {
        let text = framed(&format!("{{\"code\":1,\"opaque\":1,\"x{n}\":0}}"));
        assert_eq!(alike(&mut shapes, &text), general(&text));
    }
    assert!(shapes.shapes.len() <= MAX_SHAPES);
    assert_eq!(shapes.misses, 1000);
}

#[test]
fn a_peer_that_changes_its_headers_pushes_out_no_shape_that_is_in_use() {
    let mut shapes = Shapes::default();
    let mut missed = 0;
    for n in 0..1000 {
        // A header of its own kind between those makes every new one count as the first in a row.
        let odd = framed(&format!("{{\"code\":1,\"opaque\":1,\"x{n}\":0}}"));
        assert_eq!(alike(&mut shapes, &odd), general(&odd));
        for write in [java, go] {
            let text = write(n, "T", "p");
            missed += !shapes.read(&text, &mut Header::default()) as u32;
            assert_eq!(alike(&mut shapes, &text), general(&text));
        }
    }
    assert!(
        missed < 10,
        "{missed} of 2000 headers were read as new ones"
    );
}

#[test]
fn shapes_are_few_and_small_whatever_is_written() {
    let mut shapes = Shapes::default();
    let many = |n: usize| {
        let fields: Vec<_> = (0..n).map(|i| format!("\"k{i}\":\"v\"")).collect();
        format!("{{\"opaque\":1,\"extFields\":{{{}}}}}", fields.join(","))
    };
    let remarks = format!("{{\"opaque\":1{}}}", ",\"remark\":\"\"".repeat(100_000));
    for header in [
        many(MAX_HOLES - 1),
        many(MAX_HOLES),
        many(super::super::header::MAX_FIELDS),
        remarks,
        format!("{{\"opaque\":1,\"{}\":0}}", "x".repeat(MAX_TEXT)),
        format!("{{\"opaque\":1,\"remark\":\"{}\"}}", "x".repeat(1 << 20)),
    ] {
        for text in [framed(&header), java(1, "T", "p")] {
            assert_eq!(alike(&mut shapes, &text), general(&text));
        }
    }
    assert!(shapes.shapes.len() <= MAX_SHAPES);
    for shape in &shapes.shapes {
        let text: usize = shape.pieces.iter().map(|piece| piece.text.len()).sum();
        assert!(shape.pieces.len() <= MAX_HOLES + 1 && text <= MAX_TEXT);
    }
    let long = framed(&many(400));
    assert!(holes(&long[START..]).unwrap().unwrap().len() <= MAX_HOLES + 1);
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "\"[a-zA-Z0-9 _%{},:']{0,40}\"",
        2 => "\"([a-z]|\\\\\\\\u000[1-3]|\\\\\\\\\\\\\\\\|\\\\\\\\\"|\\\\\\\\n|\u{e4}){0,12}\"",
        1 => "-?[0-9]{1,12}",
        1 => prop::sample::select(vec!["null", "true", "'x'", "{\"a\":[1]}", "[]", "\"\"", "\"\\\\\""])
            .prop_map(str::to_owned),
    ]
}

/// A header: which members it has, in which order, and the values.
fn header() -> impl Strategy<Value = Vec<u8>> {
    let field =
        ("[a-e]|topic|qu\"?", value()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    let ext = prop::collection::vec(field, 0..6)
        .prop_map(|f| format!("\"extFields\":{{{}}}", f.join(",")));
    let member = prop_oneof![
        4 => ext,
        4 => "-?[0-9]{1,11}".prop_map(|n| format!("\"opaque\":{n}")),
        2 => value().prop_map(|v| format!("\"remark\":{v}")),
        2 => prop::sample::select(vec![
            "\"code\":310", "\"code\":10", "\"flag\":1", "\"language\":\"JAVA\"", "\"version\":\"4\"", "x:{}"
        ]).prop_map(str::to_owned),
        1 => value().prop_map(|v| format!("\"opaque\":{v}")),
    ];
    prop::collection::vec(member, 0..7).prop_map(|m| framed(&format!("{{{}}}", m.join(","))))
}

/// What to change in a header: nothing mostly, or one byte.
type Change = Option<(usize, u8, bool)>;

fn changed(mut text: Vec<u8>, change: Change) -> Vec<u8> {
    if let Some((at, byte, insert)) = change {
        let at = 8 + at % (text.len() - 8);
        match insert {
            true => text.insert(at, byte),
            false => text[at] = byte,
        }
    }
    text
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![
        prop::sample::select(b"\"\\{}[],:' 0-n'".to_vec()),
        any::<u8>()
    ];
    prop::option::weighted(0.6, (any::<usize>(), byte, any::<bool>()))
}

proptest! {
    /// Headers of a few kinds one after the other, some with a byte that is another.
    #[test]
    fn any_headers_say_the_same(
        kinds in prop::collection::vec(header(), 1..4),
        steps in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..20),
    ) {
        let mut shapes = Shapes::default();
        for (which, change) in steps {
            let text = changed(which.get(&kinds).clone(), change);
            prop_assert_eq!(alike(&mut shapes, &text), general(&text));
        }
    }

    /// A header in a known shape, whose holes hold anything.
    #[test]
    fn any_values_say_the_same(
        values in prop::collection::vec((any::<i32>(), value(), value()), 1..8),
        change in change(),
    ) {
        let mut shapes = Shapes::default();
        for (opaque, a, b) in values {
            let text = framed(&format!(
                "{{\"code\":310,\"extFields\":{{\"a\":{a},\"i\":{b}}},\"flag\":0,\"opaque\":{opaque},\"version\":4}}"
            ));
            let text = changed(text, change);
            prop_assert_eq!(alike(&mut shapes, &text), general(&text));
            let text = framed(&format!(
                "{{\"code\":310,\"extFields\":{{\"a\":\"A\",\"i\":{b}}},\"flag\":0,\"opaque\":{opaque},\"version\":4}}"
            ));
            prop_assert_eq!(alike(&mut shapes, &text), general(&text));
        }
    }
}
