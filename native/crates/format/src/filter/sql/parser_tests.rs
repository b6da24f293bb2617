use super::*;

/// The error of a text that does not compile: where it is and what it says.
fn fault(text: &str) -> (usize, String) {
    match parse(text) {
        Ok(parsed) => panic!("{text} compiles: {:?}", parsed.truth),
        Err(error) => (error.character, error.reason),
    }
}

/// How the structure of a text is understood, without the boxes around it.
fn tree(text: &str) -> String {
    let truth = parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).truth;
    format!("{truth:?}")
}

#[test]
fn levels_bind_as_they_should() {
    for (text, same) in [
        ("a=1 OR b=2 AND c=3", "(a=1) OR ((b=2) AND (c=3))"),
        ("a=1 AND b=2 OR c=3", "((a=1) AND (b=2)) OR (c=3)"),
        ("a=b=c", "(a=b)=c"),
        ("a<>b=c", "(a<>b)=c"),
        ("a=b IS NULL", "(a=b) IS NULL"),
        ("a IS NULL = b", "(a IS NULL) = b"),
        ("a=b>c", "a=(b>c)"),
        ("a>b=c<d", "(a>b)=(c<d)"),
        ("NOT a=b", "(NOT a)=b"),
        ("NOT a IS NULL", "(NOT a) IS NULL"),
        ("a=b CONTAINS 'x'", "a=(b CONTAINS 'x')"),
        (
            "a CONTAINS 'x' CONTAINS 'y'",
            "(a CONTAINS 'x') CONTAINS 'y'",
        ),
        ("a BETWEEN 1 AND 2 AND b=1", "(a BETWEEN 1 AND 2) AND (b=1)"),
        ("a BETWEEN 1 AND 2 = b", "(a BETWEEN 1 AND 2) = b"),
        ("a > - 1", "a > (-1)"),
        ("a > + - + 1", "a > (-1)"),
        ("a = 1 trailing words", "(a = 1)"),
    ] {
        assert_eq!(tree(text), tree(same), "{text}");
    }
}

#[test]
fn chains_are_flat() {
    let text = "a OR b OR (c OR d) OR e AND f AND g";
    let Truth::Any(sides) = parse(text).unwrap().truth else {
        panic!("not joined by OR");
    };
    assert_eq!(sides.len(), 4);
    assert!(matches!(&sides[2], Truth::Any(inner) if inner.len() == 2));
    assert!(matches!(&sides[3], Truth::All(inner) if inner.len() == 3));
}

#[test]
fn every_name_has_one_slot() {
    let parsed = parse("b = a AND a > 1 AND B = a AND (c) IN ('a')").unwrap();
    assert_eq!(parsed.names, ["b", "a", "B", "c"]);
    assert!(parse("TRUE").unwrap().names.is_empty());
}

#[test]
fn literals_have_the_kinds_of_java() {
    let literal = |text: &str| {
        let truth = parse(&format!("{text} IS NULL")).unwrap().truth;
        let Truth::IsNull { term, .. } = truth else {
            panic!("{text} is something else");
        };
        *term
    };
    for (text, wanted) in [
        ("1", Literal::Int(1)),
        ("2147483647", Literal::Int(i32::MAX)),
        ("2147483648", Literal::Long(1 << 31)),
        ("1L", Literal::Int(1)),
        ("9223372036854775807l", Literal::Long(i64::MAX)),
        ("5.", Literal::Double(5.0)),
        ("1e2", Literal::Double(100.0)),
        ("'it''s'", Literal::Text("it's".into())),
        ("''''''", Literal::Text("''".into())),
        ("null", Literal::Null),
        ("true", Literal::Bool(true)),
    ] {
        assert!(
            matches!(literal(text), Term::Literal(l) if l == wanted),
            "{text}"
        );
    }
    for (text, wanted) in [
        ("-1", Literal::Int(-1)),
        ("-2147483648", Literal::Long(-1 << 31)),
        ("- -2.5", Literal::Double(2.5)),
        ("-a", Literal::Null),
        ("-'1'", Literal::Null),
        ("-TRUE", Literal::Null),
    ] {
        assert!(
            matches!(literal(text), Term::Signed(l) if l == wanted),
            "{text}"
        );
    }
}

#[test]
fn errors_say_where_and_what() {
    for (text, character, what) in [
        ("", 1, "the expression ends"),
        ("a =", 4, "the expression ends"),
        ("a = 'ä' AND", 12, "the expression ends"),
        ("a = = 3", 5, "= stands there"),
        ("a != 3", 3, "write <>"),
        ("(a = 3", 7, "closing parenthesis"),
        ("a IN (3)", 7, "single quotes"),
        ("a IN ('x' 'y')", 11, "a comma or"),
        ("'x' IN ('x')", 1, "only a property"),
        ("a CONTAINS b", 12, "b stands there"),
        ("a NOT = 3", 7, "behind NOT"),
        ("a IS 3", 6, "NULL or NOT NULL"),
        ("a BETWEEN 1 OR 2", 13, "AND between the bounds"),
        ("a BETWEEN 10 AND 2", 11, "lower bound"),
        ("a = NULL", 5, "IS NULL"),
        ("a > '3'", 5, "without quotes"),
        ("a > NULL", 5, "IS NULL"),
        ("NOT a > 3", 1, "has no order"),
        ("a > (b = 3)", 5, "has no order"),
        ("TRUE = 1", 1, "TRUE and FALSE"),
        ("a = 1 AND 'x'", 11, "a condition is needed"),
        ("1", 1, "a condition is needed"),
        ("NOT 5", 5, "a condition is needed"),
        ("-a", 1, "a condition is needed"),
        ("a = 0.0", 5, "write 0 for 0.0"),
        ("a = 1e400", 5, "at most"),
        ("a = 9223372036854775808", 5, "at most 9223372036854775807"),
        ("a = 'x", 5, "no closing quote"),
        ("a = 'x' ;", 9, "leave it out"),
    ] {
        let (at, reason) = fault(text);
        assert_eq!(at, character, "{text}: {reason}");
        assert!(reason.contains(what), "{text}: {reason}");
    }
    let shown = parse("a = NULL").err().unwrap().to_string();
    let wanted =
        "SQL92 expression, character 5: NULL cannot be compared: write IS NULL or IS NOT NULL";
    assert_eq!(shown, wanted);
}

#[test]
fn long_words_are_cut_in_errors() {
    let text = format!("a = ={}", "9".repeat(10_000));
    assert!(fault(&text).1.len() < 200);
    let text = format!("a CONTAINS {}", "x".repeat(10_000));
    assert!(fault(&text).1.len() < 200);
}
