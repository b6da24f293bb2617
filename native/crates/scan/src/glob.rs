//! Patterns of paths: `*`, `?`, `[a-c]`, `[^a]` and `{a,b}`, as Spark's own file sources take them.
//!
//! No sign matches a slash, and only a dot matches the dot at the front of a name. `\` takes the next
//! sign as it is. Errors are texts that say what is wrong with a pattern.

const SIGNS: [char; 4] = ['*', '?', '[', '{'];
/// Bytes of a pattern.
const MAX_LENGTH: usize = 4096;
/// Patterns without braces that one with braces stands for.
const MAX_ALTERNATIVES: usize = 1000;

type Parsed<T> = std::result::Result<T, String>;

/// Whether a path has signs of a pattern; one that is there is a path all the same.
pub fn has_signs(path: &str) -> bool {
    path.contains(SIGNS)
}

/// The part of a path up to the last slash before its first sign, and the rest.
pub fn at_first_sign(path: &str) -> (&str, &str) {
    let sign = path.find(SIGNS).unwrap_or(path.len());
    path.split_at(path[..sign].rfind('/').map_or(0, |slash| slash + 1))
}

/// What the braces of a pattern stand for: patterns without braces.
pub fn alternatives(pattern: &str) -> Parsed<Vec<String>> {
    if pattern.len() > MAX_LENGTH {
        return Err(format!("it has more than {MAX_LENGTH} bytes"));
    }
    let (mut out, mut steps) = (Vec::new(), 0);
    let mut todo = vec![pattern.chars().collect::<Vec<char>>()];
    while let Some(one) = todo.pop() {
        steps += 1;
        if steps > 4 * MAX_ALTERNATIVES || out.len() + todo.len() > MAX_ALTERNATIVES {
            return Err(format!(
                "its braces stand for more than {MAX_ALTERNATIVES} paths"
            ));
        }
        let cuts = first_braces(&one)?;
        let (Some(start), Some(end)) = (cuts.first(), cuts.last()) else {
            out.push(one.into_iter().collect());
            continue;
        };
        // The last first, as it is taken from the end.
        for pair in cuts.windows(2).rev() {
            let inner = &one[pair[0] + 1..pair[1]];
            todo.push([&one[..*start], inner, &one[end + 1..]].concat());
        }
    }
    Ok(out)
}

/// Where the first braces begin, have commas, and end; nothing without braces.
fn first_braces(text: &[char]) -> Parsed<Vec<usize>> {
    let (mut cuts, mut depth, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        match text[at] {
            '\\' => at += 1,
            // Braces in a class are signs as others.
            '[' => at = class_end(text, at).unwrap_or(at),
            '{' => {
                depth += 1;
                if depth == 1 {
                    cuts.push(at);
                }
            }
            ',' if depth == 1 => cuts.push(at),
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    cuts.push(at);
                    return Ok(cuts);
                }
            }
            _ => {}
        }
        at += 1;
    }
    match depth {
        0 => Ok(Vec::new()),
        _ => Err("a { has no }".to_owned()),
    }
}

/// The place of the bracket that closes the class at `start`; the first one in it is a sign of it.
fn class_end(text: &[char], start: usize) -> Option<usize> {
    let mut at = start + 1;
    if matches!(text.get(at), Some('^' | '!')) {
        at += 1;
    }
    if text.get(at) == Some(&']') {
        at += 1;
    }
    while at < text.len() && text[at] != '/' {
        match text[at] {
            ']' => return Some(at),
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// A name of a path, or what names have to be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Name(String),
    Like(Like),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Like(Vec<Sign>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    One(char),
    Any,
    Many,
    /// Ranges of characters, and whether others are meant.
    Class(Vec<(char, char)>, bool),
}

/// The names of a pattern without braces, in front of which there are folders as they are.
pub fn parts(pattern: &str) -> Parsed<(String, Vec<Part>)> {
    let mut folder = match pattern.starts_with('/') {
        true => "/".to_owned(),
        false => String::new(),
    };
    let mut out: Vec<Part> = Vec::new();
    for name in pattern.split('/').filter(|name| !name.is_empty()) {
        match part(name)? {
            Part::Name(name) if out.is_empty() => folder = super::path::join(&folder, &name),
            part => out.push(part),
        }
    }
    Ok((folder, out))
}

fn part(name: &str) -> Parsed<Part> {
    let text: Vec<char> = name.chars().collect();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match text[at] {
            '*' if out.last() == Some(&Sign::Many) => {}
            '*' => out.push(Sign::Many),
            '?' => out.push(Sign::Any),
            '[' => {
                let end = class_end(&text, at).ok_or("a [ has no ]")?;
                out.push(class(&text[at + 1..end]));
                at = end;
            }
            '\\' => {
                at += 1;
                out.push(Sign::One(text.get(at).copied().unwrap_or('\\')));
            }
            sign => out.push(Sign::One(sign)),
        }
        at += 1;
    }
    let one = |sign: &Sign| match sign {
        Sign::One(sign) => Some(*sign),
        _ => None,
    };
    Ok(match out.iter().map(one).collect::<Option<String>>() {
        Some(name) => Part::Name(name),
        None => Part::Like(Like(out)),
    })
}

/// What is between two brackets.
fn class(text: &[char]) -> Sign {
    let others = matches!(text.first(), Some('^' | '!'));
    let (mut ranges, mut at) = (Vec::new(), usize::from(others));
    let sign = |at: &mut usize| {
        if text[*at] == '\\' && *at + 1 < text.len() {
            *at += 1;
        }
        *at += 1;
        text[*at - 1]
    };
    while at < text.len() {
        let first = sign(&mut at);
        let mut last = first;
        if text.get(at) == Some(&'-') && at + 1 < text.len() {
            at += 1;
            last = sign(&mut at);
        }
        ranges.push((first, last));
    }
    Sign::Class(ranges, others)
}

impl Sign {
    fn matches(&self, sign: char) -> bool {
        match self {
            Sign::One(own) => *own == sign,
            Sign::Any | Sign::Many => true,
            Sign::Class(ranges, others) => {
                let inside = |range: &(char, char)| (range.0..=range.1).contains(&sign);
                ranges.iter().any(inside) != *others
            }
        }
    }
}

impl Like {
    /// Whether the whole name is like this.
    pub fn matches(&self, name: &str) -> bool {
        if name.starts_with('.') && self.0.first() != Some(&Sign::One('.')) {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut at, mut sign) = (0, 0);
        // Behind the last `*`, and where what it stands for ends.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.0.get(sign) {
                Some(Sign::Many) => {
                    sign += 1;
                    star = Some((sign, at));
                }
                Some(own) if own.matches(name[at]) => (at, sign) = (at + 1, sign + 1),
                _ => match &mut star {
                    Some((behind, end)) => {
                        *end += 1;
                        (sign, at) = (*behind, *end);
                    }
                    None => return false,
                },
            }
        }
        self.0[sign..].iter().all(|sign| *sign == Sign::Many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        match part(pattern).unwrap() {
            Part::Name(own) => own == name,
            Part::Like(like) => like.matches(name),
        }
    }

    #[test]
    fn names_that_match() {
        for (pattern, name) in [
            ("*", "a"),
            ("store-*", "store-"),
            ("s*e*1", "store-1"),
            ("*a*b", "aabab"),
            ("store-?", "store-é"),
            ("[a-c]x", "bx"),
            ("[^a-c]x", "dx"),
            ("[!a]", "b"),
            ("[]a]", "]"),
            ("[a-]", "-"),
            (r"[\]]", "]"),
            (r"\*", "*"),
            (r"a\", r"a\"),
            (".*", ".hidden"),
            ("}", "}"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn names_that_do_not_match() {
        for (pattern, name) in [
            ("store-?", "store-"),
            ("store-*", "restore-1"),
            ("*a*b", "aaba"),
            ("[a-c]x", "dx"),
            ("[^a-c]x", "ax"),
            ("[c-a]", "b"),
            (r"\*", "a"),
            ("*", ".hidden"),
            ("?hidden", ".hidden"),
            ("[.]hidden", ".hidden"),
            ("A", "a"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_does_not_take_for_ever() {
        let many = "a*".repeat(2000);
        assert!(!matches(&format!("{many}b"), &"a".repeat(255)));
    }

    #[test]
    fn braces() {
        let of = |pattern: &str| alternatives(pattern).unwrap();
        assert_eq!(of("/a/b"), ["/a/b"]);
        assert_eq!(of("/{a,b}/c"), ["/a/c", "/b/c"]);
        assert_eq!(of("{/a,/b/c}"), ["/a", "/b/c"]);
        assert_eq!(of("{a,b{1,2},}x"), ["ax", "b1x", "b2x", "x"]);
        assert_eq!(of(r"\{a,b}"), [r"\{a,b}"]);
        assert_eq!(of("[{]a[}]"), ["[{]a[}]"]);
        assert_eq!(of("{[,],b}"), ["[,]", "b"]);
        assert_eq!(of("a}"), ["a}"]);
    }

    #[test]
    fn what_is_no_pattern() {
        assert_eq!(alternatives("{a").unwrap_err(), "a { has no }");
        assert_eq!(parts("x/[a/b]").unwrap_err(), "a [ has no ]");
        for many in ["{a,b}".repeat(10), "{b,}".repeat(9) + &"{a}".repeat(1300)] {
            let error = alternatives(&many).unwrap_err();
            assert_eq!(error, "its braces stand for more than 1000 paths");
        }
        let long = alternatives(&"a".repeat(MAX_LENGTH + 1)).unwrap_err();
        assert_eq!(long, "it has more than 4096 bytes");
    }

    #[test]
    fn folders_in_front() {
        let (folder, rest) = parts(r"/data//a\*b/s-*/x").unwrap();
        assert_eq!((&*folder, rest.len()), ("/data/a*b", 2));
        assert!(matches!(&rest[1], Part::Name(name) if name == "x"));
        assert_eq!(parts("a/b").unwrap(), ("a/b".to_owned(), Vec::new()));
        assert_eq!(parts("*").unwrap().0, "");
        assert_eq!(at_first_sign("s3://b/a/x*y/z"), ("s3://b/a/", "x*y/z"));
        assert_eq!(at_first_sign("a*"), ("", "a*"));
    }
}
