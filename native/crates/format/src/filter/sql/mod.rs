//! The SQL92 message filter: an expression is compiled once and then answers for many messages.
//!
//! Values are those of RocketMQ: a property is text or absent (NULL), conditions are TRUE, FALSE or
//! NULL, and some operations are errors. A message is delivered on TRUE only. What compiles, what
//! each operation yields and where it fails is as there, oddities included: the end of the text is
//! not demanded, NOT binds tighter than a comparison, an integer literal reads a property as an
//! integer. [SelectorParser, ComparisonExpression, UnaryExpression, LogicExpression]

mod error;
mod evaluate;
mod lexer;
mod names;
mod number;
mod parser;
mod program;
mod tree;
mod value;

pub use error::{CompileError, EvalError};
pub use parser::{MAX_DEPTH, MAX_LEN};
pub use program::Program;

#[cfg(test)]
mod case_tests;
#[cfg(test)]
mod detail_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod speed_tests;
