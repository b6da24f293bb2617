//! The tolerant JSON reader on any bytes.
//!
//! - What `parse` reads, `Scanner::skip` walks over to the same end; depth and count are bounded.
//! - Strict JSON, as another reader takes it, is read with the same meaning.
//! - The members of an object are those that `parse` finds, and each is its value where it stands.
//! - What was read, written as strict JSON (objects as keys apart), is read again alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::json::{MAX_DEPTH, MAX_VALUES, Scanner, Value, members, parse};
use std::fmt::Write;

fuzz_target!(|data: &[u8]| {
    let got = parse(data, MAX_VALUES);
    let mut s = Scanner::new(data);
    let skipped = s.skip(0).and_then(|()| s.end());
    if let Ok(value) = &got {
        assert_eq!(skipped, Ok(()));
        let (depth, count) = measure(value);
        assert!(depth <= MAX_DEPTH);
        assert!(parse(data, count).is_ok());
        assert!(parse(data, count - 1).is_err());
        if let Value::Object(pairs) = value {
            let found = members(data).unwrap();
            assert_eq!(found.len(), pairs.len());
            for ((key, start, at, end), pair) in found.iter().zip(pairs) {
                assert!(start < at && at < end);
                assert_eq!(
                    (key, &parse(&data[*at..*end], count).unwrap()),
                    (&pair.0, &pair.1)
                );
            }
        }
        let mut text = String::new();
        write(value, &mut text);
        assert_eq!(parse(text.as_bytes(), count).as_ref(), Ok(value), "{text}");
    }
    if let Ok(strict) = serde_json::from_slice::<serde_json::Value>(data) {
        match &got {
            Ok(value) => compare(value, &strict),
            Err(why) => assert!(why.contains("too deep"), "{why}"),
        }
    }
});

/// Depth of the deepest value and number of values.
fn measure(v: &Value) -> (usize, usize) {
    let inner: Vec<&Value> = match v {
        Value::List(items) => items.iter().collect(),
        Value::Object(members) => members.iter().flat_map(|(k, v)| [k, v]).collect(),
        _ => Vec::new(),
    };
    inner
        .into_iter()
        .map(measure)
        .fold((0, 1), |(deepest, n), (d, m)| (deepest.max(d + 1), n + m))
}

fn write(v: &Value, out: &mut String) {
    match v {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => write!(out, "{b}").unwrap(),
        Value::Int(n) => write!(out, "{n}").unwrap(),
        Value::Float(f) => {
            assert!(f.is_finite(), "{f} is no JSON number");
            write!(out, "{f:?}").unwrap();
        }
        Value::Text(t) => out.push_str(&serde_json::to_string(t).unwrap()),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn compare(ours: &Value, strict: &serde_json::Value) {
    use serde_json::Value as Strict;
    match (ours, strict) {
        (Value::Null, Strict::Null) => {}
        (Value::Bool(a), Strict::Bool(b)) => assert_eq!(a, b),
        (Value::Int(a), Strict::Number(b)) => assert_eq!(Some(*a), b.as_i64().or(zero(b))),
        (Value::Float(a), Strict::Number(b)) => {
            assert!(b.as_i64().is_none());
            assert_eq!(Some(*a), b.as_f64());
        }
        (Value::Text(a), Strict::String(b)) => assert_eq!(a, b),
        (Value::List(a), Strict::Array(b)) => {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).for_each(|(a, b)| compare(a, b));
        }
        (Value::Object(members), Strict::Object(map)) => {
            for (name, expected) in map {
                let named = |m: &&(Value, Value)| m.0 == Value::Text(name.clone());
                // Of several the last one counts.
                let found = members.iter().rev().find(named).expect("a member");
                compare(&found.1, expected);
            }
            assert!(members.len() >= map.len());
        }
        _ => panic!("{ours:?} and {strict:?}"),
    }
}

/// `-0` is an integer for us.
fn zero(n: &serde_json::Number) -> Option<i64> {
    (n.as_f64() == Some(0.0)).then_some(0)
}
