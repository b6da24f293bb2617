//! The compiled form of an expression.

use super::value::Value;
use std::cmp::Ordering;

/// Number of a property among those that an expression names.
pub(super) type Slot = u16;

/// Something with a value. Which kind of term it is decides what may stand around it.
/// [ConstantExpression, PropertyExpression, UnaryExpression]
#[derive(Debug)]
pub(super) enum Term {
    Literal(Literal),
    Property(Slot),
    /// What a sign makes of a literal or of a property, which is known already. The checks of
    /// literals do not see it.
    Signed(Literal),
    /// A condition behind a minus sign: NULL, but its evaluation may fail.
    NullAfter(Box<Truth>),
    Truth(Truth),
}

#[derive(Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    /// An integer that fits 32 bits; what it is compared with is read as such a one.
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
}

/// A condition: TRUE, FALSE or NULL. [BooleanExpression]
#[derive(Debug)]
pub(super) enum Truth {
    Constant(Option<bool>),
    /// A bare property as a condition: text is never TRUE. [UnaryExpression.createBooleanCast]
    Cast(Slot),
    Not(Box<Truth>),
    /// Conditions joined by AND.
    All(Box<[Truth]>),
    /// Conditions joined by OR.
    Any(Box<[Truth]>),
    /// The two sides of `=` or `<>`.
    Equal {
        sides: Box<[Term; 2]>,
        negated: bool,
    },
    /// IS NULL. IS NOT NULL is its negation, as neither is ever NULL.
    IsNull {
        term: Box<Term>,
        negated: bool,
    },
    Order {
        order: Order,
        sides: Box<[Term; 2]>,
    },
    /// The value, its lower and its upper bound.
    Between {
        terms: Box<[Term; 3]>,
        negated: bool,
    },
    In {
        property: Slot,
        list: TextSet,
        negated: bool,
    },
    Search(Box<Search>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Order {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

/// CONTAINS and its kin.
#[derive(Debug)]
pub(super) struct Search {
    pub term: Term,
    pub place: Place,
    pub text: Box<str>,
    pub negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Anywhere,
    Start,
    End,
}

/// The texts of an IN.
#[derive(Debug)]
pub(super) struct TextSet(Box<[Box<str>]>);

/// Up to this many texts are compared one by one.
const FEW: usize = 8;

impl Order {
    #[inline]
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Order::Greater => ordering.is_gt(),
            Order::GreaterEqual => ordering.is_ge(),
            Order::Less => ordering.is_lt(),
            Order::LessEqual => ordering.is_le(),
        }
    }
}

impl Literal {
    #[inline]
    pub fn value(&self) -> Value<'_> {
        match self {
            Literal::Null => Value::Null,
            Literal::Bool(b) => Value::Bool(*b),
            Literal::Int(n) => Value::Int(*n),
            Literal::Long(n) => Value::Long(*n),
            Literal::Double(n) => Value::Double(*n),
            Literal::Text(text) => Value::Text(text.as_bytes()),
        }
    }

    /// With the other sign; NULL if it is no number. [UnaryExpression.createNegate]
    fn negated(self) -> Literal {
        match self {
            Literal::Int(n) => Literal::Int(n.wrapping_neg()),
            Literal::Long(n) => Literal::Long(n.wrapping_neg()),
            Literal::Double(n) => Literal::Double(-n),
            Literal::Null | Literal::Bool(_) | Literal::Text(_) => Literal::Null,
        }
    }
}

impl Term {
    /// The term behind a minus sign. A property is text, which has no negative.
    pub fn negated(self) -> Term {
        match self {
            Term::Literal(l) | Term::Signed(l) => Term::Signed(l.negated()),
            Term::Property(_) => Term::Signed(Literal::Null),
            Term::Truth(truth) => Term::NullAfter(Box::new(truth)),
            Term::NullAfter(truth) => Term::NullAfter(truth),
        }
    }

    /// The term as a condition, if it can be one. [SelectorParser.asBooleanExpression]
    pub fn into_truth(self) -> Option<Truth> {
        match self {
            Term::Truth(truth) => Some(truth),
            Term::Property(slot) => Some(Truth::Cast(slot)),
            Term::Literal(Literal::Bool(b)) => Some(Truth::Constant(Some(b))),
            Term::Literal(Literal::Null) => Some(Truth::Constant(None)),
            Term::Literal(_) | Term::Signed(_) | Term::NullAfter(_) => None,
        }
    }
}

impl TextSet {
    pub fn new(mut texts: Vec<Box<str>>) -> Self {
        texts.sort_unstable();
        texts.dedup();
        TextSet(texts.into())
    }

    #[inline]
    pub fn has(&self, text: &[u8]) -> bool {
        if self.0.len() <= FEW {
            return self.0.iter().any(|t| t.as_bytes() == text);
        }
        let found = self.0.binary_search_by(|t| t.as_bytes().cmp(text));
        found.is_ok()
    }
}
