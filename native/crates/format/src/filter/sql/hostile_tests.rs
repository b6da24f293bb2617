//! Expressions and properties that somebody sends to do harm.

use super::{CompileError, EvalError, MAX_DEPTH, MAX_LEN, Program};
use crate::properties;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn props(pairs: &[(&str, &[u8])]) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in pairs {
        properties::push(&mut text, name.as_bytes(), value);
    }
    text
}

/// Runs with little stack, though a test build needs much more of it than a release does.
fn with_little_stack(run: impl FnOnce() + Send + 'static) {
    let size = if cfg!(debug_assertions) {
        256 << 10
    } else {
        64 << 10
    };
    let thread = std::thread::Builder::new().stack_size(size);
    thread.spawn(run).unwrap().join().unwrap();
}

fn too_deep(text: &str) {
    match Program::compile(text) {
        Err(CompileError { reason, .. }) => assert!(reason.contains("levels deep"), "{reason}"),
        Ok(_) => panic!("it compiles: {}", &text[..text.len().min(60)]),
    }
}

#[test]
fn nothing_nests_without_bound() {
    with_little_stack(|| {
        for open in [
            "(",
            "NOT ",
            "- ",
            "+",
            "-",
            "NOT(",
            "-(",
            "(a=",
            "a=(",
            "NOT a OR (",
            "(a AND (",
        ] {
            too_deep(&open.repeat(MAX_LEN / open.len()));
            let nested = 10_000.min((MAX_LEN - 1) / (open.len() + 1));
            let close = if open.contains('(') { ")" } else { "" };
            too_deep(&format!("{}a{}", open.repeat(nested), close.repeat(nested)));
        }
        for more in [
            " IS NULL",
            " = b",
            "<>b",
            " CONTAINS 'x'",
            " NOT ENDSWITH 'x'",
            " = b IS NOT NULL",
        ] {
            too_deep(&format!("a{}", more.repeat(MAX_LEN / more.len() - 1)));
        }
    });
}

/// As deep as an expression can be in each way.
#[test]
fn the_deepest_expressions_run() {
    with_little_stack(|| {
        let text = props(&[("a", b"1")]);
        let value = |text: String, props: &[u8]| Program::compile(&text).unwrap().evaluate(props);
        let nested = |open: &str, inside: &str, close: &str| {
            format!(
                "{}{inside}{}",
                open.repeat(MAX_DEPTH),
                close.repeat(MAX_DEPTH)
            )
        };
        assert_eq!(value(nested("(", "a=1", ")"), &text), Ok(Some(true)));
        assert_eq!(value(nested("NOT ", "TRUE", ""), &text), Ok(Some(true)));
        assert_eq!(
            value(format!("a = {}", nested("- ", "1", "")), &text),
            Ok(Some(true))
        );
        assert_eq!(
            value(format!("a{}", " IS NULL".repeat(MAX_DEPTH)), &text),
            Ok(Some(false))
        );
        let half = MAX_DEPTH / 2;
        let alternating = format!(
            "{}TRUE{}",
            "a=1 AND (FALSE OR (".repeat(half - 1),
            "))".repeat(half - 1)
        );
        assert_eq!(value(alternating, &text), Ok(Some(true)));
        let signed = format!("{}b{}", "-(".repeat(half - 1), ">1)".repeat(half - 1));
        assert_eq!(value(format!("{signed} IS NULL"), &text), Ok(Some(true)));
        let between = format!(
            "{}b{}",
            "-(".repeat(half - 1),
            " BETWEEN 1 AND 2)".repeat(half - 1)
        );
        assert_eq!(value(format!("{between} IS NULL"), &text), Ok(Some(true)));
        let bounds = "a NOT BETWEEN 2 AND -(".repeat(half - 1) + "b>1" + &")".repeat(half - 1);
        assert_eq!(value(bounds, &text), Ok(Some(true)));
    });
}

#[test]
fn chains_are_as_long_as_they_like() {
    let text = props(&[("a", b"1"), ("b", b"x")]);
    let chain =
        |side: &str, by: &str| vec![side; (MAX_LEN - 20) / (side.len() + by.len())].join(by);
    for (expression, value) in [
        (chain("a=1", " AND "), Ok(Some(true))),
        (chain("a=2", " OR "), Ok(Some(false))),
        (chain("c=1", " OR "), Ok(None)),
        (chain("a=1", " AND ") + " AND b='y'", Ok(Some(false))),
        (
            chain("a=2", " OR ") + " OR b=1",
            Err(EvalError::NotAnInteger),
        ),
        (chain("(a)", " OR "), Ok(Some(false))),
        (format!("b IN ({})", chain("'y'", ",")), Ok(Some(false))),
        (format!("b IN ({},'x')", chain("'y'", ",")), Ok(Some(true))),
    ] {
        assert_eq!(
            Program::compile(&expression).unwrap().evaluate(&text),
            value
        );
    }
}

#[test]
fn the_length_is_bounded() {
    let fits = format!("a = '{}'", "ä".repeat((MAX_LEN - 6) / 2));
    assert_eq!(fits.len(), MAX_LEN);
    assert!(Program::compile(&fits).is_ok());
    let error = Program::compile(&format!("{fits} ")).unwrap_err();
    assert!(error.reason.contains("16385 bytes"), "{error}");
}

/// Nothing here may take time that grows faster than the text does.
#[test]
fn long_texts_take_little_time() {
    let start = Instant::now();
    let full = |part: &str| part.repeat((MAX_LEN - 40) / part.len());
    let texts = [
        format!("a={}", full("0")),
        format!("a=0.{}1", full("0")),
        format!("a={}", full("1")),
        format!("a=1 {}", full("-")),
        format!("a={}TRUE", full("--1 = ")),
        format!("a=1{}", full(" --\n")),
        format!("a=1{}", full("/**/")),
        format!("a=1/*{}", full("/*")),
        format!("a='{}", full("''")),
        format!("a='{}'", full("''")),
        full("a "),
        full("a,"),
        full("_"),
        full("é"),
    ];
    for text in &texts {
        let _ = Program::compile(text);
    }
    // RocketMQ evaluates the value of BETWEEN twice, at every level of these.
    let twice = format!(
        "{}a{} IS NULL",
        "-(".repeat(60),
        " BETWEEN 1 AND 2)".repeat(60)
    );
    let none = Program::compile(&twice).unwrap().evaluate(b"");
    assert_eq!(none, Ok(Some(true)));
    // Long values: a search that would compare at every place, digits without end.
    let value = vec![b'0'; properties::MAX_LEN - 3];
    let text = props(&[("a", &value)]);
    let search = format!("a CONTAINS '{}1'", full("0"));
    assert!(!Program::compile(&search).unwrap().matches(&text));
    assert!(Program::compile("a = 0").unwrap().matches(&text));
    assert!(Program::compile("a < 0.5").unwrap().matches(&text));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn many_names_meet_many_properties() {
    let names: Vec<String> = (0..2000).map(|i| format!("n{i}")).collect();
    let expression = format!("{} IS NULL", names.join(" IS NULL OR "));
    let some = &expression[..expression.find(" OR n900 ").unwrap()];
    let program = Program::compile(some).unwrap();
    let mut text = Vec::new();
    for name in &names {
        properties::push(&mut text, name.as_bytes(), b"1");
    }
    assert_eq!(program.evaluate(&text), Ok(Some(false)));
    let last = text.len() - "n1999_1_".len();
    assert_eq!(program.evaluate(&text[..last]), Ok(Some(false)));
    assert_eq!(program.evaluate(&text["n0_1_".len()..]), Ok(Some(true)));
}

#[test]
fn of_several_values_the_last_counts() {
    let program = Program::compile("a = 'x'").unwrap();
    assert!(program.matches(b"a\x01y\x02a\x01x\x02"));
    assert!(!program.matches(b"a\x01x\x02a\x01y\x02"));
    assert!(
        program.matches(b"a\x01x\x02a\x01\x02"),
        "an empty value is none"
    );
    assert!(
        program.matches(b"aa\x01y\x02a\x01x"),
        "without the last separator"
    );
    assert_eq!(program.evaluate(b""), Ok(None));
    assert_eq!(program.evaluate(b"\x02a\x02\x01x\x02"), Ok(None));
}

#[test]
fn bytes_that_are_no_text_are_replaced_as_in_java() {
    let text = props(&[
        ("a", b"x\xffy"),
        ("b", b"x\xfey"),
        ("c", b"\xc3\xa4\xc3"),
        ("d", b"1"),
    ]);
    for (expression, matches) in [
        ("a = b", true),
        ("a = 'x\u{fffd}y'", true),
        ("a CONTAINS '\u{fffd}'", true),
        ("a IN ('x\u{fffd}y')", true),
        ("a STARTSWITH 'x' AND a ENDSWITH 'y'", true),
        ("a CONTAINS 'xy'", false),
        ("c STARTSWITH 'ä'", true),
        ("c = 'ä'", false),
        ("d = 1", true),
    ] {
        assert_eq!(
            Program::compile(expression).unwrap().matches(&text),
            matches,
            "{expression}"
        );
    }
    let error = Program::compile("a > 1").unwrap().evaluate(&text);
    assert_eq!(error, Err(EvalError::NotAnInteger));
    // A name with such bytes is another name.
    assert_eq!(
        Program::compile("a=1").unwrap().evaluate(b"a\xff\x011\x02"),
        Ok(None)
    );
}

#[test]
fn threads_share_a_program() {
    fn shareable<T: Send + Sync + 'static>(_: &T) {}
    let program = Program::compile("a > 5 AND b = 'abc'").unwrap();
    shareable(&program);
    std::thread::scope(|scope| {
        for n in 0..4 {
            let text = props(&[("a", n.to_string().repeat(2).as_bytes()), ("b", b"abc")]);
            let program = &program;
            scope.spawn(move || assert_eq!(program.matches(&text), n > 0));
        }
    });
}

/// Words and parts of words, some of which continue each other.
const PARTS: &[&str] = &[
    "a",
    "b",
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "CONTAINS",
    "STARTSWITH",
    "ENDSWITH",
    "(",
    ")",
    ",",
    "=",
    "<>",
    "<",
    ">",
    "<=",
    ">=",
    "+",
    "-",
    "--",
    "\n",
    "/*",
    "*/",
    "'",
    "''",
    "'x'",
    "1",
    "0",
    "2.5",
    "1e5",
    ".",
    "L",
    "9223372036854775807",
    "ä",
    "@",
    " ",
    " ",
    " ",
];

fn property_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => prop::sample::select(&b"ab\x01\x02"[..]),
        2 => prop::sample::select(&b"0123456789.-+eExX "[..]),
        1 => any::<u8>(),
    ];
    prop::collection::vec(byte, 0..80)
}

fn check_no_panic(expression: &str, props: &[u8]) {
    match Program::compile(expression) {
        Ok(program) => {
            let value = program.evaluate(props);
            assert_eq!(program.matches(props), value == Ok(Some(true)));
        }
        Err(error) => assert!(error.character <= expression.chars().count() + 1),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_compiles_or_not(expression in any::<String>(), props in property_bytes()) {
        check_no_panic(&expression, &props);
        check_no_panic(&format!("a = {expression}"), &props);
        check_no_panic(&format!("a = '{expression}'"), &props);
    }

    #[test]
    fn any_words_compile_or_not(
        words in prop::collection::vec(prop::sample::select(PARTS), 0..30),
        blanks: bool,
        props in property_bytes(),
    ) {
        let between = if blanks { " " } else { "" };
        check_no_panic(&words.join(between), &props);
        check_no_panic(&format!("a=1 {}", words.join(between)), &props);
    }

    #[test]
    fn any_properties_are_met(
        props in property_bytes(),
        more in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        for expression in [
            "a > 1", "a = 1.5", "a > b", "a = b", "a BETWEEN b AND 3000000000", "a CONTAINS 'b'",
            "a IN ('a', 'b')", "a IS NULL OR a = TRUE", "a = '\u{fffd}'",
        ] {
            check_no_panic(expression, &props);
            check_no_panic(expression, &more);
        }
    }
}

#[test]
fn long_properties_that_are_used_often_are_not_evaluated() {
    let often = vec!["n = 2.5"; 1000].join(" OR ");
    let program = Program::compile(&often).unwrap();
    let mut props = b"n\x01".to_vec();
    props.extend(std::iter::repeat_n(b'1', 1000));
    assert_eq!(program.evaluate(&props), Ok(Some(false)));
    props.extend(std::iter::repeat_n(b'1', 100));
    assert_eq!(program.evaluate(&props), Err(EvalError::TooMuchWork));
    assert!(!program.matches(&props));
}
