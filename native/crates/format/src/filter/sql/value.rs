//! Values while an expression is evaluated, and how two of them compare.

use super::error::EvalError;
use super::number;
use std::cmp::Ordering;

/// Text is valid UTF-8.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'a [u8]),
}

type Result<T> = std::result::Result<T, EvalError>;

/// `=`: two NULLs are equal, a NULL on the left gives NULL, one on the right FALSE.
/// [ComparisonExpression.doCreateEqual]
#[inline]
pub(super) fn equal(left: Value<'_>, right: Value<'_>) -> Result<Option<bool>> {
    Ok(match (left, right) {
        (Value::Null, Value::Null) => Some(true),
        (Value::Null, _) => None,
        (_, Value::Null) => Some(false),
        (Value::Text(l), Value::Text(r)) => Some(l == r),
        _ => Some(compare(left, right)?.is_eq()),
    })
}

/// How two values are ordered; None if one is NULL. Two texts are compared as numbers.
/// [ComparisonExpression.evaluate]
#[inline]
pub(super) fn order(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>> {
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Text(l), Value::Text(r)) => Some(compare_doubles(double(l)?, double(r)?)),
        _ => Some(compare(left, right)?),
    })
}

/// Compares two values of which none is NULL. Text is read as what stands on the other side; kinds
/// that have nothing in common are never equal. [ComparisonExpression.__compare]
fn compare(left: Value<'_>, right: Value<'_>) -> Result<Ordering> {
    use Value::*;
    Ok(match (left, right) {
        (Int(l), Int(r)) => l.cmp(&r),
        (Text(l), Int(r)) => int(l)?.cmp(&r),
        (Int(l), Text(r)) => l.cmp(&int(r)?),
        (Text(l), Long(r)) => long(l)?.cmp(&r),
        (Long(l), Text(r)) => l.cmp(&long(r)?),
        (Text(l), Double(r)) => compare_doubles(double(l)?, r),
        (Double(l), Text(r)) => compare_doubles(l, double(r)?),
        (Long(l), Long(r)) => l.cmp(&r),
        (Int(l), Long(r)) => i64::from(l).cmp(&r),
        (Long(l), Int(r)) => l.cmp(&i64::from(r)),
        (Double(l), Double(r)) => compare_doubles(l, r),
        (Double(l), Int(r)) => compare_doubles(l, f64::from(r)),
        (Int(l), Double(r)) => compare_doubles(f64::from(l), r),
        (Double(l), Long(r)) => compare_doubles(l, r as f64),
        (Long(l), Double(r)) => compare_doubles(l as f64, r),
        (Bool(l), Bool(r)) => l.cmp(&r),
        // Java's Boolean.valueOf.
        (Text(l), Bool(r)) => l.eq_ignore_ascii_case(b"true").cmp(&r),
        (Bool(_), Text(_)) => return Err(EvalError::BooleanAgainstText),
        (Text(l), Text(r)) => l.cmp(r),
        (Null, _) | (_, Null) | (Bool(_), _) | (_, Bool(_)) => Ordering::Less,
    })
}

#[inline]
fn int(text: &[u8]) -> Result<i32> {
    number::int(text).ok_or(EvalError::NotAnInteger)
}

#[inline]
fn long(text: &[u8]) -> Result<i64> {
    number::long(text).ok_or(EvalError::NotALong)
}

#[inline]
fn double(text: &[u8]) -> Result<f64> {
    number::double(text).ok_or(EvalError::NotADouble)
}

/// Java's order: -0.0 is below 0.0, NaN is above everything and equal to itself. [Double.compare]
fn compare_doubles(left: f64, right: f64) -> Ordering {
    match left.partial_cmp(&right) {
        Some(Ordering::Equal) => left.is_sign_positive().cmp(&right.is_sign_positive()),
        Some(ordering) => ordering,
        None => left.is_nan().cmp(&right.is_nan()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_ordered_as_in_java() {
        let sorted = [
            f64::NEG_INFINITY,
            -1.0,
            -0.0,
            0.0,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        for (i, l) in sorted.iter().enumerate() {
            for (j, r) in sorted.iter().enumerate() {
                assert_eq!(compare_doubles(*l, *r), i.cmp(&j), "{l} and {r}");
            }
        }
    }

    #[test]
    fn integers_become_doubles_beside_doubles() {
        let big = Value::Long(9_007_199_254_740_993);
        assert_eq!(
            equal(big, Value::Double(9_007_199_254_740_992.0)),
            Ok(Some(true))
        );
        assert_eq!(
            equal(big, Value::Long(9_007_199_254_740_992)),
            Ok(Some(false))
        );
        assert_eq!(order(Value::Int(-1), big), Ok(Some(Ordering::Less)));
        assert_eq!(
            order(Value::Double(0.5), Value::Int(0)),
            Ok(Some(Ordering::Greater))
        );
    }

    #[test]
    fn kinds_without_anything_in_common_differ() {
        for n in [Value::Int(1), Value::Long(1), Value::Double(1.0)] {
            assert_eq!(equal(n, Value::Bool(true)), Ok(Some(false)));
            assert_eq!(equal(Value::Bool(true), n), Ok(Some(false)));
        }
        let text = Value::Text(b"1");
        assert_eq!(
            equal(Value::Bool(true), text),
            Err(EvalError::BooleanAgainstText)
        );
        assert_eq!(equal(text, Value::Bool(false)), Ok(Some(true)));
    }
}
