//! Expressions, properties and what becomes of them, as RocketMQ answers.

use super::Program;
use crate::properties;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Expected {
    /// TRUE, FALSE and NULL.
    T,
    F,
    U,
    /// Does not compile.
    PE,
    /// Cannot be evaluated.
    EE,
}

use Expected::*;

/// An expression, properties as `name=value|name=value`, and the outcome.
pub(super) type Case = (&'static str, &'static str, Expected);

fn outcome(expression: &str, props: &str) -> Expected {
    let Ok(program) = Program::compile(expression) else {
        return PE;
    };
    let pairs = props.split('|').filter(|p| !p.is_empty());
    let pairs = pairs.map(|p| p.split_once('=').expect("a name and a value"));
    let pairs: Vec<_> = pairs.collect();
    let value = program.evaluate_pairs(&pairs);
    // A property string has no empty values.
    if pairs.iter().all(|(_, value)| !value.is_empty()) {
        let mut text = Vec::new();
        for (name, value) in pairs {
            properties::push(&mut text, name.as_bytes(), value.as_bytes());
        }
        assert_eq!(program.evaluate(&text), value, "{expression} for {props}");
        assert_eq!(program.matches(&text), value == Ok(Some(true)));
    }
    match value {
        Ok(Some(true)) => T,
        Ok(Some(false)) => F,
        Ok(None) => U,
        Err(_) => EE,
    }
}

pub(super) fn check(cases: &[Case]) {
    let wrong: Vec<_> = cases
        .iter()
        .map(|(expression, props, expected)| {
            (expression, props, expected, outcome(expression, props))
        })
        .filter(|(.., expected, got)| *expected != got)
        .collect();
    assert!(
        wrong.is_empty(),
        "expression, properties, expected, got: {wrong:#?}"
    );
}

#[test]
fn every_rule() {
    check(CASES);
}

const CASES: &[Case] = &[
    ("a=3", "a=3", T),
    ("a=3", "a=03", T),
    ("a=3", "a=+3", T),
    ("a=3", "a=3.0", EE),
    ("a=3", "a= 3", EE),
    ("a=3", "a=abc", EE),
    ("a=3", "a=3000000000", EE),
    ("a='3'", "a=3", T),
    ("a='3'", "a=3.0", F),
    ("a=3.0", "a=3", T),
    ("a=3.0", "a=3.00", T),
    ("a=3l", "a=3", T),
    ("a=3l", "a=3000000000", EE),
    ("a=3000000000", "a=3000000000", T),
    ("a=2147483647", "a=2147483648", EE),
    ("a>5L", "a=9223372036854775807", EE),
    ("a=9223372036854775808", "", PE),
    ("a=TRUE", "a=true", T),
    ("a=TRUE", "a=TRUE", T),
    ("a=TRUE", "a=yes", F),
    ("a=TRUE", "a= true", F),
    ("a=TRUE", "", U),
    ("a=FALSE", "a=yes", T),
    ("a=FALSE", "a=false", T),
    ("a<>FALSE", "a=yes", F),
    ("a", "a=true", F),
    ("a", "a=x", F),
    ("a", "", U),
    ("NOT a", "a=true", T),
    ("NOT a", "", U),
    ("NOT (a=TRUE)", "a=x", T),
    ("TRUE", "", T),
    ("NULL", "", U),
    ("NOT NULL", "", U),
    ("1='1'", "", T),
    ("1.0=1", "", T),
    ("'abc'=5", "", EE),
    ("5='5.0'", "", EE),
    ("5.0='5'", "", T),
    ("TRUE='true'", "", PE),
    ("'true'=TRUE", "", T),
    ("TRUE=1", "", PE),
    ("1=TRUE", "", F),
    ("TRUE=a", "a=true", EE),
    ("a=NULL", "", PE),
    ("a>NULL", "", PE),
    ("a>TRUE", "", PE),
    ("a>'3'", "", PE),
    ("'5'>3", "", PE),
    ("3<a", "a=4", T),
    ("a>3", "a=4", T),
    ("a>3", "a=4.5", EE),
    ("a>3", "a=abc", EE),
    ("a>3", "", U),
    ("a>3.0", "a=4", T),
    ("a>3.0", "a=abc", EE),
    ("a>=1", "a=", EE),
    ("a>1.0", "a=NaN", T),
    ("a>1.0", "a=Infinity", T),
    ("a>1.0", "a=1e5", T),
    ("a>1.0", "a= 2.5", T),
    ("a>1.0", "a=2.5d", T),
    ("a>1.0", "a=0x1p3", T),
    ("a>1", "a=1e5", EE),
    ("a>b", "a=10|b=9", T),
    ("a>b", "a=x|b=9", EE),
    ("a>b", "a=10", U),
    ("a>=b", "a=1e1|b=10", T),
    ("a=b", "a=1.0|b=1", F),
    ("a=b", "a=x|b=x", T),
    ("a=b", "", T),
    ("a=b", "a=1", F),
    ("a=b", "b=1", U),
    ("a<>b", "", F),
    ("a<>b", "a=1", T),
    ("a<>b", "b=1", U),
    ("a<>3", "", U),
    ("a<>3", "a=4", T),
    ("a<>3", "a=x", EE),
    ("a='x'", "", U),
    ("a<>'x'", "", U),
    ("a=''", "a=", T),
    ("a=''", "", U),
    ("NOT a='x'", "a=y", EE),
    ("NOT (a='x')", "", U),
    ("a IS NULL", "", T),
    ("a IS NULL", "a=1", F),
    ("a IS NULL", "a=", F),
    ("a IS NOT NULL", "", F),
    ("a IS NOT NULL", "a=1", T),
    ("NULL IS NULL", "", T),
    ("1 IS NULL", "", F),
    ("NOT a IS NULL", "a=1", F),
    ("NOT a IS NULL", "", T),
    ("NOT (a IS NULL)", "a=1", T),
    ("NOT a > 3", "", PE),
    ("NOT (a > 3)", "a=2", T),
    ("a BETWEEN 2 AND 10", "a=2", T),
    ("a BETWEEN 2 AND 10", "a=10", T),
    ("a BETWEEN 2 AND 10", "a=11", F),
    ("a BETWEEN 2 AND 10", "a=5.5", EE),
    ("a BETWEEN 2 AND 10", "a=abc", EE),
    ("a BETWEEN 2 AND 10", "", U),
    ("a BETWEEN 2.0 AND 10.0", "a=5.5", T),
    ("a NOT BETWEEN 2 AND 10", "a=1", T),
    ("a NOT BETWEEN 2 AND 10", "a=5", F),
    ("a NOT BETWEEN 2 AND 10", "", U),
    ("a BETWEEN 10 AND 2", "", PE),
    ("a NOT BETWEEN 10 AND 2", "a=5", T),
    ("a BETWEEN '1' AND '9'", "", PE),
    ("a BETWEEN x AND y", "a=5|x=1|y=9", T),
    ("a BETWEEN b AND 9", "a=5|b=x", EE),
    ("a BETWEEN 5 AND -5", "a=0", F),
    ("a BETWEEN -1 AND 1", "a=0", T),
    ("5 BETWEEN 1 AND 9", "", T),
    ("a BETWEEN 1 AND 2 AND 3", "", PE),
    ("a BETWEEN 1 AND 3 AND b='x'", "a=2|b=x", T),
    ("a BETWEEN NULL AND 9", "", PE),
    ("a IN ('3','4')", "a=3", T),
    ("a IN ('3','4')", "a=5", F),
    ("a IN ('3','4')", "", U),
    ("a NOT IN ('3','4')", "a=3", F),
    ("a NOT IN ('3','4')", "a=5", T),
    ("a NOT IN ('3','4')", "", U),
    ("a IN (3,4)", "", PE),
    ("'3' IN ('3')", "", PE),
    ("a IN ()", "", PE),
    ("(a) IN ('x')", "a=x", T),
    ("a IN ('it''s')", "a=it's", T),
    ("a IN ('x') = FALSE", "a=y", T),
    ("a CONTAINS 'x'", "a=axb", T),
    ("a CONTAINS 'x'", "a=aXb", F),
    ("a CONTAINS 'x'", "", F),
    ("a NOT CONTAINS 'x'", "a=b", T),
    ("a NOT CONTAINS 'x'", "", F),
    ("a CONTAINS ''", "a=axb", F),
    ("a NOT CONTAINS ''", "a=axb", F),
    ("a STARTSWITH 'ax'", "a=axb", T),
    ("a ENDSWITH 'xb'", "a=axb", T),
    ("a CONTAINS b", "", PE),
    ("1 CONTAINS '1'", "", F),
    ("'axb' CONTAINS 'x'", "", T),
    ("a IS NULL OR a NOT CONTAINS 'x'", "", T),
    ("a LIKE 'x%'", "a=x1", F),
    ("a='x' AND b='y'", "a=x", U),
    ("a='x' AND b='y'", "b=z", F),
    ("a='x' OR b='y'", "b=y", T),
    ("a='x' OR b='y'", "a=z", U),
    ("a='x' OR b='y' AND c='z'", "a=x", T),
    ("a>3 OR b='y'", "a=abc|b=y", EE),
    ("b='y' OR a>3", "a=abc|b=y", T),
    ("b='n' AND a>3", "a=abc|b=y", F),
    ("a=1 OR a='x'", "a=x", EE),
    ("a='x' OR a=1", "a=x", T),
    ("a=b=c", "a=x|b=x", F),
    ("a>1>2", "", PE),
    ("1<a<5", "", PE),
    ("(a=1)=TRUE", "a=1", T),
    ("a=(b='x')", "a=true|b=x", T),
    ("(b='x')=a", "a=true|b=x", EE),
    ("(a=1) IS NULL", "", T),
    ("a IS NULL IS NULL", "", F),
    ("-a > -5", "a=3", U),
    ("a > -5", "a=3", T),
    ("a = --5", "a=5", T),
    ("+a = 5", "a=5", T),
    ("a = 0.0", "", PE),
    ("a = 1e400", "", PE),
    ("a = .5", "a=0.5", T),
    ("a = 5.", "a=5", T),
    ("a = 5E2", "a=500", T),
    ("a = 0123", "a=123", F),
    ("a > 0x1F", "a=40", T),
    ("a > 1_000", "a=5", T),
    ("a+1=2", "a=1", F),
    ("a*2=2", "", PE),
    ("a != 3", "", PE),
    ("a == 3", "", PE),
    ("A='x'", "a=x", U),
    ("a.b='x'", "", PE),
    ("a-b='x'", "a-b=x", U),
    ("\"a\"='x'", "", PE),
    ("a='a''b'", "a=a'b", T),
    ("now > 1", "", U),
    ("a=10", "a=010", T),
    ("a='10'", "a=010", F),
    ("a=0", "a=-0", T),
    ("a='x' b='y'", "a=x", T),
    ("a='x')", "a=x", T),
    ("a>3) AND b='y'", "a=4|b=n", T),
    ("a='x';", "", PE),
    ("a='x' @", "", PE),
    ("a='x' b @", "a=x", T),
    ("a='x' AND", "", PE),
    ("(a>3", "", PE),
    ("a='x", "", PE),
    ("'x'", "", PE),
    ("1", "", PE),
    ("a AND b", "a=true|b=true", F),
    ("a=1 AND b=TRUE", "a=1|b=true", T),
    ("TRUE AND NULL", "", U),
    ("FALSE AND NULL", "", F),
    ("TRUE OR NULL", "", T),
    ("FALSE OR NULL", "", U),
    ("a='-- x'", "a=-- x", T),
    ("TAGS='t'", "TAGS=t", T),
];
