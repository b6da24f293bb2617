//! The words of an expression, read one at a time: what is behind the end of an expression is never
//! looked at, so it may be anything. [SelectorParserTokenManager]

use super::error::CompileError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    End,
    Name(&'a str),
    /// What is between the quotes; a quote inside is still doubled.
    Text(&'a str),
    /// Digits, perhaps with an `l` or `L` behind them.
    Integer(&'a str),
    Float(&'a str),
    Not,
    And,
    Or,
    Between,
    In,
    Is,
    True,
    False,
    Null,
    Contains,
    StartsWith,
    EndsWith,
    Equal,
    NotEqual,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Open,
    Comma,
    Close,
    Plus,
    Minus,
}

const KEYWORDS: [(&str, Token<'static>); 12] = [
    ("NOT", Token::Not),
    ("AND", Token::And),
    ("OR", Token::Or),
    ("BETWEEN", Token::Between),
    ("IN", Token::In),
    ("IS", Token::Is),
    ("TRUE", Token::True),
    ("FALSE", Token::False),
    ("NULL", Token::Null),
    ("CONTAINS", Token::Contains),
    ("STARTSWITH", Token::StartsWith),
    ("ENDSWITH", Token::EndsWith),
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Start and end of the last token.
    start: usize,
    end: usize,
    /// The last CR or LF: without one behind it `--` is no comment but two signs.
    last_line_end: Option<usize>,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Lexer {
            text,
            start: 0,
            end: 0,
            last_line_end: text.bytes().rposition(is_line_end),
        }
    }

    /// Where the last token starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The last token as it is written.
    pub fn written(&self) -> &'a str {
        &self.text[self.start..self.end]
    }

    /// An error about what starts at the byte `at`.
    pub fn fault(&self, at: usize, reason: impl Into<String>) -> CompileError {
        CompileError::new(self.text, at, reason)
    }

    pub fn next(&mut self) -> Result<Token<'a>, CompileError> {
        self.start = self.behind_blanks();
        let text: &'a str = &self.text[self.start..];
        let rest = text.as_bytes();
        let Some(&first) = rest.first() else {
            self.end = self.start;
            return Ok(Token::End);
        };
        let (token, len) = match (first, rest.get(1)) {
            (b'=', _) => (Token::Equal, 1),
            (b'<', Some(b'>')) => (Token::NotEqual, 2),
            (b'<', Some(b'=')) => (Token::LessEqual, 2),
            (b'<', _) => (Token::Less, 1),
            (b'>', Some(b'=')) => (Token::GreaterEqual, 2),
            (b'>', _) => (Token::Greater, 1),
            (b'(', _) => (Token::Open, 1),
            (b',', _) => (Token::Comma, 1),
            (b')', _) => (Token::Close, 1),
            (b'+', _) => (Token::Plus, 1),
            (b'-', _) => (Token::Minus, 1),
            (b'\'', _) => match quoted_len(rest) {
                Some(len) => (Token::Text(&text[1..len - 1]), len),
                None => return Err(self.fault(self.start, "a quoted text has no closing quote")),
            },
            (b'0'..=b'9', _) | (b'.', Some(b'0'..=b'9')) => number(text),
            _ => match rest.iter().take_while(|&&b| is_name_byte(b)).count() {
                0 => return Err(self.fault(self.start, unknown(text))),
                len => (word(&text[..len]), len),
            },
        };
        self.end = self.start + len;
        Ok(token)
    }

    /// Where the first byte is that belongs to neither blanks nor comments.
    fn behind_blanks(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = self.end;
        loop {
            let rest = &bytes[at..];
            at += match rest {
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0c, ..] => 1,
                [b'-', b'-', ..] if self.last_line_end.is_some_and(|end| end > at) => {
                    let len = rest.iter().position(|&b| is_line_end(b));
                    len.expect("a line end is behind") + 1
                }
                [b'/', b'*', inside @ ..] => {
                    match inside.windows(2).position(|pair| pair == b"*/") {
                        Some(len) => len + 4,
                        None => return at,
                    }
                }
                _ => return at,
            };
        }
    }
}

fn is_line_end(b: u8) -> bool {
    matches!(b, b'\r' | b'\n')
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')
}

/// Length of the quoted text that `rest` begins with. If the last quote is doubled and none closes,
/// its first half does; the second is then met as the next token.
fn quoted_len(rest: &[u8]) -> Option<usize> {
    let mut at = 1;
    let mut doubled = None;
    while let Some(len) = rest[at..].iter().position(|&b| b == b'\'') {
        at += len + 1;
        if rest.get(at) != Some(&b'\'') {
            return Some(at);
        }
        doubled = Some(at);
        at += 1;
    }
    doubled
}

fn word(text: &str) -> Token<'_> {
    let keyword = KEYWORDS.iter().find(|(k, _)| text.eq_ignore_ascii_case(k));
    keyword.map_or(Token::Name(text), |(_, token)| *token)
}

/// The longest number that `text` begins with. An integer has no leading zeros: of `0123` it is
/// `0`. Of `0L` it is `0`, too, and the `L` is a name.
fn number(text: &str) -> (Token<'_>, usize) {
    let rest = text.as_bytes();
    let digits = digits(rest);
    let float = if rest.get(digits) == Some(&b'.') {
        let fraction = digits + 1;
        let end = fraction + self::digits(&rest[fraction..]);
        Some(end + exponent(&rest[end..]))
    } else {
        match exponent(&rest[digits..]) {
            0 => None,
            len => Some(digits + len),
        }
    };
    if let Some(len) = float {
        return (Token::Float(&text[..len]), len);
    }
    let len = match (rest[0], rest.get(digits)) {
        (b'0', _) => 1,
        (_, Some(b'l' | b'L')) => digits + 1,
        _ => digits,
    };
    (Token::Integer(&text[..len]), len)
}

fn digits(rest: &[u8]) -> usize {
    rest.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Length of the exponent that `rest` begins with, 0 if there is none.
fn exponent(rest: &[u8]) -> usize {
    let sign = match rest {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return 0,
    };
    match digits(&rest[sign..]) {
        0 => 0,
        len => sign + len,
    }
}

/// What is wrong with a text that begins with no token.
fn unknown(text: &str) -> String {
    let first = text.chars().next().unwrap_or(' ');
    let advice = match first {
        '!' => "write <> for unequal",
        '"' | '`' => "a property name has no quotes, a text has single quotes",
        '.' => "only properties whose names consist of A-Z a-z 0-9 _ $ can be named",
        '/' if text.starts_with("/*") => "a comment is not closed by */",
        '*' | '/' | '%' => "there is no arithmetic",
        ';' => "leave it out",
        '?' | ':' | '@' => "there are no parameters",
        '[' | ']' | '{' | '}' => "there are no lists but IN ('x', 'y')",
        c if c.is_alphabetic() => {
            "only properties whose names consist of A-Z a-z 0-9 _ $ can be named"
        }
        _ => "texts have single quotes",
    };
    format!("{first:?} has no meaning here: {advice}")
}

#[cfg(test)]
#[path = "lexer_tests.rs"]
mod tests;
