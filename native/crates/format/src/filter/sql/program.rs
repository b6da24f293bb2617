//! A compiled expression.

use super::error::{CompileError, EvalError};
use super::names::{FEW, Names};
use super::parser;
use super::tree::Truth;
use std::borrow::Cow;

/// A compiled filter expression. It never changes, so any number of threads may use it.
#[derive(Debug)]
pub struct Program {
    truth: Truth,
    names: Names,
}

/// Bytes of properties that an evaluation looks at, each as often as the expression uses it. More may
/// take milliseconds (numbers of thousands of digits), and RocketMQ has no such limit.
const MAX_WORK: usize = 1 << 20;

/// Up to this many properties evaluation needs no memory but the stack.
const MANY: usize = 32;

impl Program {
    /// Compiles an expression, which costs time in proportion to its length.
    pub fn compile(text: &str) -> Result<Program, CompileError> {
        let parsed = parser::parse(text)?;
        Ok(Program {
            names: Names::new(&parsed.names, parsed.uses),
            truth: parsed.truth,
        })
    }

    /// Whether a message with these properties is delivered: TRUE is, everything else is not.
    /// [ExpressionMessageFilter.isMatchedByCommitLog]
    #[inline]
    pub fn matches(&self, props: &[u8]) -> bool {
        self.evaluate(props) == Ok(Some(true))
    }

    /// TRUE, FALSE, None for NULL, or an error where RocketMQ throws. An expression as a whole has
    /// no other values. `props` is a property string.
    pub fn evaluate(&self, props: &[u8]) -> Result<Option<bool>, EvalError> {
        match utf8(props) {
            Cow::Borrowed(props) => self.evaluate_utf8(props),
            Cow::Owned(props) => self.evaluate_utf8(&props),
        }
    }

    fn evaluate_utf8(&self, props: &[u8]) -> Result<Option<bool>, EvalError> {
        match self.names.len() {
            0 => self.truth.evaluate(&[]),
            few if few <= FEW => self.evaluate_in(props, &mut [None; FEW]),
            many if many <= MANY => self.evaluate_in(props, &mut [None; MANY]),
            more => self.evaluate_in(props, &mut vec![None; more]),
        }
    }

    #[inline]
    fn evaluate_in<'v>(
        &'v self,
        props: &'v [u8],
        slots: &mut [Option<&'v [u8]>],
    ) -> Result<Option<bool>, EvalError> {
        self.names.fill(props, slots);
        if self.names.work(slots) > MAX_WORK {
            return Err(EvalError::TooMuchWork);
        }
        self.truth.evaluate(slots)
    }

    /// The value for given properties, which may be empty texts, as a property string's may not.
    #[cfg(test)]
    pub(super) fn evaluate_pairs(&self, props: &[(&str, &str)]) -> Result<Option<bool>, EvalError> {
        let mut slots = vec![None; self.names.len()];
        for (name, value) in props {
            if let Some(slot) = self.names.slot(name.as_bytes()) {
                slots[usize::from(slot)] = Some(value.as_bytes());
            }
        }
        self.truth.evaluate(&slots)
    }
}

/// The text as Java decodes it: what is no UTF-8 is replaced. Only a surrogate that is encoded like
/// a character becomes three replacement characters here and one in Java.
#[inline]
fn utf8(props: &[u8]) -> Cow<'_, [u8]> {
    match std::str::from_utf8(props) {
        Ok(_) => Cow::Borrowed(props),
        Err(_) => Cow::Owned(String::from_utf8_lossy(props).into_owned().into_bytes()),
    }
}
