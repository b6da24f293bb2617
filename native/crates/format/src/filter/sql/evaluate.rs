//! The evaluation of a compiled expression for one message. It goes as deep as the expression,
//! which is bounded, and no part is evaluated twice.

use super::error::EvalError;
use super::tree::{Order, Place, Search, Term, Truth};
use super::value::{self, Value};

/// The values of the named properties; they are valid UTF-8.
pub(super) type Slots<'s, 'v> = &'s [Option<&'v [u8]>];

type Result<T> = std::result::Result<T, EvalError>;

impl Truth {
    /// TRUE, FALSE or None for NULL.
    pub fn evaluate<'v>(&'v self, slots: Slots<'_, 'v>) -> Result<Option<bool>> {
        match self {
            Truth::Constant(truth) => Ok(*truth),
            Truth::Cast(slot) => Ok(slots[usize::from(*slot)].map(|_| false)),
            Truth::Not(truth) => Ok(truth.evaluate(slots)?.map(|b| !b)),
            Truth::All(sides) => join(sides, slots, false),
            Truth::Any(sides) => join(sides, slots, true),
            Truth::Equal { sides, negated } => {
                let [left, right] = &**sides;
                let equal = value::equal(left.evaluate(slots)?, right.evaluate(slots)?)?;
                Ok(equal.map(|b| b != *negated))
            }
            Truth::IsNull { term, negated } => {
                let is_null = matches!(term.evaluate(slots)?, Value::Null);
                Ok(Some(is_null != *negated))
            }
            Truth::Order { order, sides } => {
                let [left, right] = &**sides;
                compare(left.evaluate(slots)?, *order, right, slots)
            }
            Truth::Between { terms, negated } => {
                let [term, low, high] = &**terms;
                between(term.evaluate(slots)?, [low, high], *negated, slots)
            }
            Truth::In {
                property,
                list,
                negated,
            } => {
                let text = slots[usize::from(*property)];
                Ok(text.map(|text| list.has(text) != *negated))
            }
            Truth::Search(search) => search.evaluate(slots).map(Some),
        }
    }
}

impl Term {
    #[inline]
    fn evaluate<'v>(&'v self, slots: Slots<'_, 'v>) -> Result<Value<'v>> {
        Ok(match self {
            Term::Property(slot) => match slots[usize::from(*slot)] {
                Some(text) => Value::Text(text),
                None => Value::Null,
            },
            Term::Literal(literal) | Term::Signed(literal) => literal.value(),
            Term::Truth(truth) => match truth.evaluate(slots)? {
                Some(b) => Value::Bool(b),
                None => Value::Null,
            },
            Term::NullAfter(truth) => {
                truth.evaluate(slots)?;
                Value::Null
            }
        })
    }
}

impl Search {
    /// FALSE for whatever is no text, negated or not. [ComparisonExpression.createContains]
    fn evaluate<'v>(&'v self, slots: Slots<'_, 'v>) -> Result<bool> {
        if self.text.is_empty() {
            return Ok(false);
        }
        let Value::Text(text) = self.term.evaluate(slots)? else {
            return Ok(false);
        };
        let found = match self.place {
            // The standard library searches texts in linear time, bytes not at all.
            Place::Anywhere => std::str::from_utf8(text).is_ok_and(|t| t.contains(&*self.text)),
            Place::Start => text.starts_with(self.text.as_bytes()),
            Place::End => text.ends_with(self.text.as_bytes()),
        };
        Ok(found != self.negated)
    }
}

/// AND (`end` is false) or OR (`end` is true): the first side that is `end` decides; those behind
/// it are not evaluated and cannot fail. [LogicExpression]
fn join<'v>(sides: &'v [Truth], slots: Slots<'_, 'v>, end: bool) -> Result<Option<bool>> {
    let mut all = Some(!end);
    for side in sides {
        match side.evaluate(slots)? {
            Some(b) if b == end => return Ok(Some(end)),
            Some(_) => {}
            None => all = None,
        }
    }
    Ok(all)
}

/// The right side is not evaluated beside a NULL on the left. [ComparisonExpression.evaluate]
#[inline]
fn compare<'v>(
    left: Value<'_>,
    order: Order,
    right: &'v Term,
    slots: Slots<'_, 'v>,
) -> Result<Option<bool>> {
    if let Value::Null = left {
        return Ok(None);
    }
    let ordering = value::order(left, right.evaluate(slots)?)?;
    Ok(ordering.map(|o| order.holds(o)))
}

/// `>=` the lower bound AND `<=` the upper one; negated `<` the lower OR `>` the upper.
/// [ComparisonExpression.createBetween, createNotBetween]
fn between<'v>(
    value: Value<'_>,
    [low, high]: [&'v Term; 2],
    negated: bool,
    slots: Slots<'_, 'v>,
) -> Result<Option<bool>> {
    let (from, to) = if negated {
        (Order::Less, Order::Greater)
    } else {
        (Order::GreaterEqual, Order::LessEqual)
    };
    let first = compare(value, from, low, slots)?;
    if first == Some(negated) {
        return Ok(first);
    }
    let second = compare(value, to, high, slots)?;
    Ok(match second {
        Some(b) if b != negated => first,
        second => second,
    })
}
