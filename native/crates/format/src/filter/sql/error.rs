//! What can be wrong with an expression, and with a message under it.

use std::fmt;

/// Why a text is no filter expression. [MQFilterException]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Which character of the expression it is about, counted from 1.
    pub character: usize,
    /// What is wrong and what to do.
    pub reason: String,
}

impl CompileError {
    /// An error about the byte `at` of `text`, which is the start of a character.
    pub(super) fn new(text: &str, at: usize, reason: impl Into<String>) -> Self {
        CompileError {
            character: text[..at].chars().count() + 1,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CompileError { character, reason } = self;
        write!(f, "SQL92 expression, character {character}: {reason}")
    }
}

impl std::error::Error for CompileError {}

/// Where RocketMQ throws while it evaluates; the message is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// Text beside an integer that fits 32 bits, which Java's `Integer.valueOf` refuses.
    NotAnInteger,
    /// Text beside a larger integer, which `Long.valueOf` refuses.
    NotALong,
    /// Text beside a floating-point number or, in an order, beside other text, which
    /// `Double.valueOf` refuses.
    NotADouble,
    /// A condition on the left of `=` or `<>` and text on the right.
    BooleanAgainstText,
    /// The properties are too long for how often the expression uses them.
    TooMuchWork,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvalError::NotAnInteger => {
                "the text is no integer of 32 bits: compare with 1.0, not 1, to allow fractions"
            }
            EvalError::NotALong => {
                "the text is no integer of 64 bits: compare with 1.0, not 1, to allow fractions"
            }
            EvalError::NotADouble => "the text is no number",
            EvalError::TooMuchWork => {
                "the properties are too long for how often the expression uses them (1 MiB in all)"
            }
            EvalError::BooleanAgainstText => {
                "a condition on the left and text on the right: write the text on the left"
            }
        })
    }
}

impl std::error::Error for EvalError {}
