//! Errors with the names of options. Below, errors name the parameters of `pyrmq.scan`, but users of
//! the source know options; the table says which option sets which parameter.

use super::table;
use crate::error::{Kind, Part, SegmentError};

/// An error as users of Spark read it. `message` has no hint in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub kind: Kind,
    pub message: String,
    /// What to do; "" where there is nothing to say.
    pub hint: String,
}

impl Shown {
    /// Message and hint as one text.
    pub fn text(&self) -> String {
        match self.hint.as_str() {
            "" => self.message.clone(),
            hint => format!("{} ({hint})", self.message),
        }
    }
}

/// `subscribePattern`, `failOnDataLoss=false`: the option for a parameter, as users write it.
pub fn as_option(parameter: &str, value: Option<&str>) -> String {
    let row = table::rows().find(|row| row.parameter == Some(parameter));
    let name = row.map_or(parameter, |row| row.name);
    match value {
        None => name.to_owned(),
        Some("True") => format!("{name}=true"),
        Some("False") => format!("{name}=false"),
        Some(value) => format!("{name}={}", value.trim_matches('\'')),
    }
}

pub fn shown(error: &SegmentError) -> Shown {
    let text = |parts: &[Part]| SegmentError::rendered(parts, as_option);
    let mut hint = match &error.hint {
        Some(parts) => text(parts),
        None => text(&default_hint(error.kind)),
    };
    if error.kind == Kind::Layout {
        hint += match hint.as_str() {
            "" => "option nameServer reads through brokers",
            _ => "; option nameServer reads through brokers",
        };
    }
    Shown {
        kind: error.kind,
        message: text(&error.text),
        hint,
    }
}

/// What a class of errors always says.
fn default_hint(kind: Kind) -> Vec<Part> {
    match kind {
        Kind::DataLoss => vec![
            Part::Value("fail_on_data_loss", "false"),
            " continues with the earliest record available".into(),
        ],
        Kind::Damaged => vec!["docs/store.md says what to do about damage".into()],
        Kind::Checkpoint => vec![
            "continue with the stores and ".into(),
            Part::Name("broker_names"),
            " of before, or start with a new checkpoint".into(),
        ],
        Kind::Internal => vec!["please report this with the log".into()],
        _ => Vec::new(),
    }
}
