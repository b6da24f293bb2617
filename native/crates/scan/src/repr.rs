//! Values in messages as Python shows them: its texts are the ones that users know.

use serde_json::Value;
use std::fmt::Write;

/// Longer ones are cut.
const MAX_SHOWN: usize = 80;

/// A text in quotes.
pub fn text(value: &str) -> String {
    let quote = match value.contains('\'') && !value.contains('"') {
        true => '"',
        false => '\'',
    };
    let mut out = String::with_capacity(value.len() + 2);
    out.push(quote);
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => push_escape(&mut out, c),
        }
    }
    out.push(quote);
    out
}

fn push_escape(out: &mut String, c: char) {
    let code = c as u32;
    let done = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    done.expect("a string takes everything");
}

/// Whether a character is shown as itself: it is no control, no separator but the space, and has a
/// shape.
pub fn is_printable(c: char) -> bool {
    if (' '..='~').contains(&c) {
        return true;
    }
    // Rust escapes the same characters in a text; combining ones only at its front.
    let mut shown = String::from("a");
    shown.push(c);
    !c.is_control() && !c.is_whitespace() && !shown.escape_debug().any(|part| part == '\\')
}

/// A value of JSON.
pub fn repr_json(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(string) => text(string),
        Value::Array(all) => {
            let all: Vec<_> = all.iter().map(repr_json).collect();
            format!("[{}]", all.join(", "))
        }
        Value::Object(all) => {
            let pair = |(k, v): (&String, &Value)| format!("{}: {}", text(k), repr_json(v));
            let all: Vec<_> = all.iter().map(pair).collect();
            format!("{{{}}}", all.join(", "))
        }
    }
}

/// The same, cut where it is long.
pub fn shown(value: &Value) -> String {
    cut(repr_json(value))
}

pub fn cut(shown: String) -> String {
    match shown.char_indices().nth(MAX_SHOWN) {
        None => shown,
        Some(_) => {
            let kept: String = shown.chars().take(MAX_SHOWN - 3).collect();
            kept + "..."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_as_python_shows_them() {
        assert_eq!(text("a"), "'a'");
        assert_eq!(text("it's"), "\"it's\"");
        assert_eq!(text("'\""), "'\\'\"'");
        assert_eq!(
            text("\x1b\n\u{202e}\u{e9}\u{301}"),
            "'\\x1b\\n\\u202eé\u{301}'"
        );
        assert_eq!(text("\u{e0001}\u{a0}"), "'\\U000e0001\\xa0'");
    }

    #[test]
    fn values_as_python_shows_them() {
        let all = json!({"a": [1, -2, true, null], "b": {"c": "d"}});
        assert_eq!(
            repr_json(&all),
            "{'a': [1, -2, True, None], 'b': {'c': 'd'}}"
        );
        let long = json!("x".repeat(100));
        assert_eq!(shown(&long), format!("'{}...", "x".repeat(76)));
    }
}
