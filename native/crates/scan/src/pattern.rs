//! Regular expressions for names of topics, as Python's `re.fullmatch` takes them.

use super::error::{Kind, Part, Result, SegmentError};
use super::repr;
use fancy_regex::{Regex, RegexBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// Steps back in one comparison: a pattern with nested repetitions can take for ever otherwise.
const MAX_BACKTRACKS: usize = 1_000_000;
/// Bytes of a pattern.
const MAX_LENGTH: usize = 64 << 10;
/// Patterns that stay compiled.
const MAX_KEPT: usize = 32;
static KEPT: Mutex<Vec<Arc<Pattern>>> = Mutex::new(Vec::new());

#[derive(Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// The compiled pattern; SegmentOptionError if it is none.
    pub fn of(text: &str) -> Result<Arc<Pattern>> {
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().iter().find(|pattern| pattern.text == text) {
            return Ok(found.clone());
        }
        let made = Arc::new(Pattern {
            text: text.to_owned(),
            regex: compile(text)?,
        });
        let mut all = kept();
        if all.len() >= MAX_KEPT {
            all.remove(0);
        }
        all.push(made.clone());
        Ok(made)
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &str) -> Result<bool> {
        self.regex.is_match(name).map_err(|_| {
            option(format!(
                ": {} takes too many steps for topic {}",
                repr::cut(repr::text(&self.text)),
                repr::text(name)
            ))
            .hint("repeat no group that repeats, like (a+)+")
        })
    }
}

fn option(text: String) -> SegmentError {
    SegmentError::new(Kind::Option, [Part::Name("pattern"), text.into()])
}

fn compile(text: &str) -> Result<Regex> {
    let wrong = |why: String| {
        let shown = repr::text(text);
        option(format!(": {shown} is no regular expression: {why}"))
    };
    if text.len() > MAX_LENGTH {
        let why = format!("it has more than {MAX_LENGTH} bytes");
        return Err(option(format!(
            ": {} is no regular expression: {why}",
            repr::cut(repr::text(text))
        )));
    }
    let own = translated(text);
    // Alone first: a bracket too many must not close the group around it.
    build(&own).map_err(wrong)?;
    // A line break ends a comment.
    let end = if is_verbose(&own) { "\n" } else { "" };
    build(&format!("\\A(?:{own}{end})\\z")).map_err(wrong)
}

fn build(text: &str) -> std::result::Result<Regex, String> {
    RegexBuilder::new(text)
        .backtrack_limit(MAX_BACKTRACKS)
        .build()
        .map_err(|error| error.to_string())
}

/// Whether blanks and comments of the pattern count for nothing.
fn is_verbose(text: &str) -> bool {
    let flags = text
        .strip_prefix("(?")
        .and_then(|rest| rest.split(')').next());
    flags.is_some_and(|flags| flags.contains('x') && flags.chars().all(|c| c.is_ascii_alphabetic()))
}

/// The same pattern for the engine here, where it says something else than Python's: `\Z` is the end
/// of the text, a brace that is no repetition is itself, a class in a class is none.
fn translated(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '\\' => {
                out.push('\\');
                at += 1;
                match chars.get(at) {
                    Some('Z') => out.push('z'),
                    Some(&c) => out.push(c),
                    None => {}
                }
                at += 1;
            }
            '[' => at = push_class(&chars, at, &mut out),
            '(' if chars[at..].starts_with(&['(', '?', '#']) => {
                let end = chars[at..].iter().position(|&c| c == ')');
                at = end.map_or(chars.len(), |end| at + end + 1);
            }
            '{' => {
                let (repetition, behind) = repetition(&chars, at);
                out.push_str(&repetition);
                at = behind;
            }
            c => {
                out.push(c);
                at += 1;
            }
        }
    }
    out
}

/// Appends a class of characters; returns the place behind it.
fn push_class(chars: &[char], start: usize, out: &mut String) -> usize {
    out.push('[');
    let mut at = start + 1;
    if chars.get(at) == Some(&'^') {
        out.push('^');
        at += 1;
    }
    if chars.get(at) == Some(&']') {
        out.push_str("\\]");
        at += 1;
    }
    while at < chars.len() && chars[at] != ']' {
        match chars[at] {
            '\\' => {
                out.push('\\');
                at += 1;
                if let Some(&c) = chars.get(at) {
                    out.push(c);
                }
            }
            // Signs of sets of characters, which Python does not have.
            c @ ('[' | '&' | '~') => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        at += 1;
    }
    if at < chars.len() {
        out.push(']');
    }
    at + 1
}

/// A repetition, or the brace alone; and the place behind it.
fn repetition(chars: &[char], start: usize) -> (String, usize) {
    let Some(end) = chars[start..].iter().position(|&c| c == '}') else {
        return ("\\{".to_owned(), start + 1);
    };
    let inner: String = chars[start + 1..start + end].iter().collect();
    let is_number = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let behind = start + end + 1;
    match inner.split_once(',') {
        Some(("", high)) if is_number(high) => (format!("{{0,{high}}}"), behind),
        Some((low, high)) if is_number(low) && is_number(high) => (format!("{{{inner}}}"), behind),
        None if !inner.is_empty() && is_number(&inner) => (format!("{{{inner}}}"), behind),
        _ => ("\\{".to_owned(), start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::of(pattern).unwrap().matches(name).unwrap()
    }

    #[test]
    fn the_whole_name_matches() {
        assert!(matches("a|ab", "ab"));
        assert!(matches("orders.*", "orders-2024"));
        assert!(!matches("rders", "orders"));
        assert!(!matches("a$", "a\n"));
        assert!(matches("", ""));
    }

    #[test]
    fn as_python_reads_it() {
        assert!(matches(r"(?i)ORDERS\Z", "orders"));
        assert!(matches("[]a]+", "a]"));
        assert!(matches("[[a]+", "[a"));
        assert!(matches("[a&&b]+", "a&b"));
        assert!(matches("a{,2}", "aa") && !matches("a{,2}", "aaa"));
        assert!(matches("a{x}", "a{x}"));
        assert!(matches("a{2}", "aa"));
        assert!(matches("a(?#comment)b", "ab"));
        assert!(matches("(?x) a b # comment", "ab"));
        assert!(matches(r"(?P<x>a)b(?P=x)", "aba"));
        assert!(matches(r"(?!x)\w+(?<!y)", "abc") && !matches(r"(?!x)\w+", "xbc"));
        assert!(matches(r"[\w.-]+", "a.b-c"));
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        for wrong in ["(", "a)", "*", "[a", "a)|(b", r"\"] {
            let error = Pattern::of(wrong).unwrap_err();
            assert_eq!(error.kind, Kind::Option, "{wrong}");
            let start = format!("pattern: {} is no regular expression: ", repr::text(wrong));
            assert!(error.to_string().starts_with(&start), "{error}");
        }
        assert!(Pattern::of(&"a".repeat(MAX_LENGTH + 1)).is_err());
    }

    #[test]
    fn a_pattern_cannot_take_for_ever() {
        let name = "a".repeat(60) + "!";
        let pattern = Pattern::of(r"(a+)+\1$").unwrap();
        let error = pattern.matches(&name).unwrap_err();
        assert!(
            error.to_string().contains("takes too many steps"),
            "{error}"
        );
        // Without a reference back there are no steps back.
        assert!(!matches("(a+)+", &name));
    }
}
