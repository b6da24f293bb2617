use super::*;

/// All tokens of a text up to its end or to the first error.
fn tokens(text: &str) -> (Vec<Token<'_>>, Option<CompileError>) {
    let mut lexer = Lexer::new(text);
    let mut read = Vec::new();
    loop {
        match lexer.next() {
            Ok(Token::End) => return (read, None),
            Ok(token) => {
                assert!(text[lexer.start()..].starts_with(lexer.written()));
                read.push(token);
            }
            Err(error) => return (read, Some(error)),
        }
    }
}

fn all(text: &str) -> Vec<Token<'_>> {
    let (read, error) = tokens(text);
    assert_eq!(error, None, "{text}");
    read
}

use Token::*;

#[test]
fn signs_are_as_long_as_possible() {
    assert_eq!(
        all("<><=<>=>="),
        [NotEqual, LessEqual, NotEqual, Equal, GreaterEqual]
    );
    assert_eq!(all("< >= =="), [Less, GreaterEqual, Equal, Equal]);
    assert_eq!(all("(,)+-"), [Open, Comma, Close, Plus, Minus]);
}

#[test]
fn words_are_keywords_or_names() {
    assert_eq!(all("and And aNd ANDY"), [And, And, And, Name("ANDY")]);
    assert_eq!(all("not in is or between"), [Not, In, Is, Or, Between]);
    assert_eq!(
        all("contains startswith endswith"),
        [Contains, StartsWith, EndsWith]
    );
    assert_eq!(all("true false null"), [True, False, Null]);
    assert_eq!(all("$ _1 a$b_9"), [Name("$"), Name("_1"), Name("a$b_9")]);
    assert_eq!(
        all("like escape now"),
        [Name("like"), Name("escape"), Name("now")]
    );
}

#[test]
fn numbers() {
    for text in ["0", "7", "10", "123l", "123L", "99999999999999999999"] {
        assert_eq!(all(text), [Integer(text)]);
    }
    for text in [
        "0.", "1.5", ".5", "5.e1", "5e1", "5E+1", "5e-10", "007.5", "00e1", ".0",
    ] {
        assert_eq!(all(text), [Float(text)]);
    }
    assert_eq!(all("0123"), [Integer("0"), Integer("123")]);
    assert_eq!(all("00"), [Integer("0"), Integer("0")]);
    assert_eq!(all("0L"), [Integer("0"), Name("L")]);
    assert_eq!(all("1Ll"), [Integer("1L"), Name("l")]);
    assert_eq!(all("1e"), [Integer("1"), Name("e")]);
    assert_eq!(all("1e+"), [Integer("1"), Name("e"), Plus]);
    assert_eq!(all("1.5.5"), [Float("1.5"), Float(".5")]);
    assert_eq!(all("1..5"), [Float("1."), Float(".5")]);
    assert_eq!(all("1.5L"), [Float("1.5"), Name("L")]);
    assert_eq!(all("0x1F"), [Integer("0"), Name("x1F")]);
    assert_eq!(all("1_000"), [Integer("1"), Name("_000")]);
}

#[test]
fn quoted_texts() {
    assert_eq!(all("'' 'a' 'a b'"), [Text(""), Text("a"), Text("a b")]);
    assert_eq!(all("'it''s'"), [Text("it''s")]);
    assert_eq!(all("''''"), [Text("''")]);
    assert_eq!(all("'a'b'c'"), [Text("a"), Name("b"), Text("c")]);
    assert_eq!(all("'ä\n--\u{0}/*😀'"), [Text("ä\n--\u{0}/*😀")]);
    // A doubled quote closes if nothing else does; its second half opens a text without an end.
    let (read, error) = tokens("'a''b");
    assert_eq!(read, [Text("a")]);
    assert_eq!(error.map(|e| e.character), Some(4));
    let (read, error) = tokens("'a''b''c");
    assert_eq!(read, [Text("a''b")]);
    assert_eq!(error.map(|e| e.character), Some(7));
    let (read, error) = tokens("'a");
    assert_eq!((read, error.map(|e| e.character)), (vec![], Some(1)));
}

#[test]
fn blanks_and_comments() {
    assert_eq!(all(" \t\r\n\u{c}a"), [Name("a")]);
    assert_eq!(
        all("a/**/b/* x ' */c/***/d"),
        [Name("a"), Name("b"), Name("c"), Name("d")]
    );
    assert_eq!(
        all("a -- b\nc--d\re--\r\nf"),
        [Name("a"), Name("c"), Name("e"), Name("f")]
    );
    assert_eq!(all("a\n--5"), [Name("a"), Minus, Minus, Integer("5")]);
    assert_eq!(all("--5\n--6"), [Minus, Minus, Integer("6")]);
    assert_eq!(all("---\n-"), [Minus]);
    for text in [
        "/*", "/*/", "a /* b *", "/", "a / b", "\u{b}", "\u{a0}", "\u{0}",
    ] {
        assert!(tokens(text).1.is_some(), "{text:?}");
    }
}

#[test]
fn what_has_no_meaning_is_named() {
    for (text, advice) in [
        ("!=", "<>"),
        ("\"a\"", "no quotes"),
        (".b", "can be named"),
        ("/* x", "not closed"),
        ("*", "arithmetic"),
        (";", "leave it out"),
        ("?", "parameters"),
        ("ä", "can be named"),
        ("[", "IN"),
        ("#", "single quotes"),
    ] {
        let error = tokens(text).1.expect("an error").to_string();
        assert!(error.contains(advice), "{error}");
    }
    let error = tokens("äö").1.map(|e| e.character);
    assert_eq!(error, Some(1));
    assert_eq!(tokens("'äö' ö").1.map(|e| e.character), Some(6));
}
