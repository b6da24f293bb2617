//! An error as Java gets it.

use pyrmq_scan::{Kind, SegmentError, options};
use std::any::Any;

pub type Result<T> = std::result::Result<T, Failure>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the class in `pyrmq.errors`.
    pub kind: &'static str,
    pub message: String,
    /// What to do; empty if there is nothing to say.
    pub hint: String,
}

impl Failure {
    pub fn new(kind: Kind, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Failure {
            kind: kind.class(),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A use of the border that no caller of ours makes.
    pub fn misuse(message: impl Into<String>) -> Self {
        Failure::new(Kind::Internal, message, "please report this with the log")
    }

    /// What a panic said.
    pub fn panic(payload: &(dyn Any + Send)) -> Self {
        let said = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no text".to_owned());
        Failure::misuse(format!("the engine panicked: {said}"))
    }
}

impl From<SegmentError> for Failure {
    /// With the names that Spark's options have.
    fn from(error: SegmentError) -> Self {
        let shown = options::shown(&error);
        Failure {
            kind: shown.kind.class(),
            message: shown.message,
            hint: shown.hint,
        }
    }
}
