//! Random expressions against a plain evaluator that takes RocketMQ's own steps one by one: no
//! slots, no flat chains, BETWEEN as two comparisons. The expressions are written with random
//! parentheses, blanks, comments and cases of letters.

use super::Program;
use super::random_tests::Value::*;
use super::random_tests::*;
use crate::properties;
use proptest::prelude::*;
use std::cmp::Ordering;

/// What decides where an expression may stand.
enum Kind {
    Constant(Value),
    Property,
    Condition,
    Other,
}

/// The kind of an expression, None if it does not compile.
fn kind(ast: &Ast) -> Option<Kind> {
    match ast {
        Ast::Literal(i) => return Some(Kind::Constant(LITERALS[*i].1.clone())),
        Ast::Property(_) => return Some(Kind::Property),
        Ast::Plus(inside) => return kind(inside),
        Ast::Minus(inside) => return kind(inside).map(|_| Kind::Other),
        Ast::Not(inside) => be_condition(inside)?,
        Ast::Or(sides) | Ast::And(sides) => sides.iter().try_for_each(be_condition)?,
        Ast::Equal(sides, _) => match (kind(&sides[0])?, kind(&sides[1])?) {
            (Kind::Constant(Null), _) | (_, Kind::Constant(Null)) => return None,
            (Kind::Constant(Bool(_)), Kind::Constant(Bool(_))) => {}
            (Kind::Constant(Bool(_)), Kind::Constant(_)) => return None,
            _ => {}
        },
        Ast::IsNull(inside, _) | Ast::Search(inside, ..) => {
            kind(inside)?;
        }
        Ast::Order(sides, _) => sides.iter().try_for_each(have_order)?,
        Ast::Between(parts, negated) => {
            parts.iter().try_for_each(have_order)?;
            if let (Kind::Constant(low), Kind::Constant(high)) =
                (kind(&parts[1])?, kind(&parts[2])?)
                && !negated
                && compare(&low, &high) == Ok(Ordering::Greater)
            {
                return None;
            }
        }
        Ast::In(inside, ..) => match kind(inside)? {
            Kind::Property => {}
            _ => return None,
        },
    }
    Some(Kind::Condition)
}

fn be_condition(ast: &Ast) -> Option<()> {
    match kind(ast)? {
        Kind::Condition | Kind::Property | Kind::Constant(Bool(_) | Null) => Some(()),
        Kind::Other | Kind::Constant(_) => None,
    }
}

fn have_order(ast: &Ast) -> Option<()> {
    match kind(ast)? {
        Kind::Property | Kind::Other | Kind::Constant(Int(_) | Long(_) | Double(_)) => Some(()),
        Kind::Condition | Kind::Constant(_) => None,
    }
}

/// An error where RocketMQ throws.
type Thrown<T> = Result<T, ()>;

fn evaluate(ast: &Ast, props: &Props) -> Thrown<Value> {
    Ok(match ast {
        Ast::Literal(i) => LITERALS[*i].1.clone(),
        Ast::Property(name) => props.get(name).map_or(Null, |text| Text(text)),
        Ast::Plus(inside) => evaluate(inside, props)?,
        Ast::Minus(inside) => match evaluate(inside, props)? {
            Int(n) => Int(-n),
            Long(n) => Long(-n),
            Double(n) => Double(-n),
            _ => Null,
        },
        Ast::Not(inside) => not(condition(inside, props)?),
        Ast::Or(sides) => or(
            || condition(&sides[0], props),
            || condition(&sides[1], props),
        )?,
        Ast::And(sides) => and(
            || condition(&sides[0], props),
            || condition(&sides[1], props),
        )?,
        Ast::Equal(sides, negated) => {
            let equal = equal(evaluate(&sides[0], props)?, evaluate(&sides[1], props)?)?;
            if *negated { not(equal) } else { equal }
        }
        Ast::IsNull(inside, negated) => {
            let equal = equal(evaluate(inside, props)?, Null)?;
            if *negated { not(equal) } else { equal }
        }
        Ast::Order(sides, sign) => order(&sides[0], sign, &sides[1], props)?,
        Ast::Between(parts, negated) => {
            let [value, low, high] = &**parts;
            if *negated {
                or(
                    || order(value, "<", low, props),
                    || order(value, ">", high, props),
                )?
            } else {
                and(
                    || order(value, ">=", low, props),
                    || order(value, "<=", high, props),
                )?
            }
        }
        Ast::In(inside, list, negated) => match evaluate(inside, props)? {
            Text(text) => Bool(list.contains(&text) != *negated),
            _ => Null,
        },
        Ast::Search(inside, word, wanted, negated) => match evaluate(inside, props) {
            _ if wanted.is_empty() => Bool(false),
            Ok(Text(text)) => {
                let found = match *word {
                    "CONTAINS" => text.contains(wanted),
                    "STARTSWITH" => text.starts_with(wanted),
                    _ => text.ends_with(wanted),
                };
                Bool(found != *negated)
            }
            Ok(_) => Bool(false),
            Err(()) => return Err(()),
        },
    })
}

/// As a condition: a bare property is one, and never TRUE.
fn condition(ast: &Ast, props: &Props) -> Thrown<Value> {
    let value = evaluate(ast, props)?;
    Ok(match (kind(ast), value) {
        (Some(Kind::Property), Text(_)) => Bool(false),
        (_, value) => value,
    })
}

fn not(value: Value) -> Value {
    match value {
        Bool(b) => Bool(!b),
        _ => Null,
    }
}

fn and(left: impl Fn() -> Thrown<Value>, right: impl Fn() -> Thrown<Value>) -> Thrown<Value> {
    let left = left()?;
    if let Bool(false) = left {
        return Ok(left);
    }
    Ok(match (left, right()?) {
        (_, Bool(false)) => Bool(false),
        (Bool(true), Bool(true)) => Bool(true),
        _ => Null,
    })
}

fn or(left: impl Fn() -> Thrown<Value>, right: impl Fn() -> Thrown<Value>) -> Thrown<Value> {
    Ok(not(and(|| left().map(not), || right().map(not))?))
}

fn equal(left: Value, right: Value) -> Thrown<Value> {
    Ok(match (&left, &right) {
        (Null, Null) => Bool(true),
        (Null, _) => Null,
        (_, Null) => Bool(false),
        (Text(l), Text(r)) => Bool(l == r),
        _ => Bool(compare(&left, &right)? == Ordering::Equal),
    })
}

fn order(left: &Ast, sign: &str, right: &Ast, props: &Props) -> Thrown<Value> {
    let left = evaluate(left, props)?;
    if let Null = left {
        return Ok(Null);
    }
    let ordering = match (left, evaluate(right, props)?) {
        (_, Null) => return Ok(Null),
        (Text(l), Text(r)) => order_of(double_of(l)?, double_of(r)?),
        (l, r) => compare(&l, &r)?,
    };
    Ok(Bool(match sign {
        ">" => ordering == Ordering::Greater,
        ">=" => ordering != Ordering::Less,
        "<" => ordering == Ordering::Less,
        _ => ordering != Ordering::Greater,
    }))
}

/// Two values of which none is NULL and not both are texts; Less if they have nothing in common.
fn compare(left: &Value, right: &Value) -> Thrown<Ordering> {
    Ok(match (left, right) {
        (Bool(l), Bool(r)) => l.cmp(r),
        (Bool(_), Text(_)) => return Err(()),
        (Text(l), Bool(r)) => (l.to_lowercase() == "true").cmp(r),
        (Bool(_), _) | (_, Bool(_)) => Ordering::Less,
        (Text(l), r) => compare(&read_as(l, r)?, r)?,
        (l, Text(r)) => compare(l, &read_as(r, l)?)?,
        (Double(_), _) | (_, Double(_)) => order_of(number(left), number(right)),
        _ => integer(left).cmp(&integer(right)),
    })
}

fn read_as(text: &str, kind: &Value) -> Thrown<Value> {
    match kind {
        Double(_) => double_of(text).map(Double),
        Long(_) => long_of(text).map(Long),
        _ => i32::try_from(long_of(text)?).map(Int).map_err(|_| ()),
    }
}

fn long_of(text: &str) -> Thrown<i64> {
    TEXTS
        .iter()
        .find(|row| row.0 == text)
        .and_then(|row| row.1)
        .ok_or(())
}

fn double_of(text: &str) -> Thrown<f64> {
    TEXTS
        .iter()
        .find(|row| row.0 == text)
        .and_then(|row| row.2)
        .ok_or(())
}

fn integer(value: &Value) -> i64 {
    match value {
        Int(n) => i64::from(*n),
        Long(n) => *n,
        other => panic!("no integer: {other:?}"),
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Double(n) => *n,
        other => integer(other) as f64,
    }
}

/// The numbers that occur have this order in Java, too; only NaN has a sign here.
fn order_of(left: f64, right: f64) -> Ordering {
    left.total_cmp(&right)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn expressions_mean_what_the_model_says(
        ast in expression(),
        messages in prop::collection::vec(properties_of_a_message(), 1..6),
        random: u64,
    ) {
        let mut writer = Writer { random, text: String::new() };
        writer.write(&ast, 0);
        let text = writer.text;
        let program = Program::compile(&text);
        prop_assert_eq!(program.is_ok(), be_condition(&ast).is_some(), "{}", text);
        for props in messages {
            let Ok(program) = &program else {
                break;
            };
            let mut encoded = Vec::new();
            for (name, value) in &props {
                properties::push(&mut encoded, name.as_bytes(), value.as_bytes());
            }
            let value = program.evaluate(&encoded).map_err(|_| ());
            let model = condition(&ast, &props).map(|value| match value {
                Bool(b) => Some(b),
                _ => None,
            });
            prop_assert_eq!(value, model, "{} with {:?}", text, props);
        }
    }
}
