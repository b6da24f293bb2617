//! What is wrong with a read of segments, for every interface: a class, a text and a hint.

use pyrmq_arrow::ScanError;
use std::fmt;

pub type Result<T> = std::result::Result<T, SegmentError>;

/// The class of the error; `pyrmq.errors` has one of the same name for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SegmentPathError: the path does not exist, is empty, cannot be read, or is not a log.
    Path,
    /// SegmentLayoutError: a kind of log or queue that is not supported.
    Layout,
    /// SegmentOptionError: a parameter is invalid, or contradicts another one.
    Option,
    /// UnknownTopicError.
    UnknownTopic,
    /// OffsetOutOfRangeError.
    OffsetOutOfRange,
    /// DataLossError: what is asked for is deleted.
    DataLoss,
    /// SegmentDamagedError.
    Damaged,
    /// CheckpointError: the position of a stream does not fit its stores.
    Checkpoint,
    /// SegmentError itself.
    Segment,
    /// ConfigError: an option of Spark's source that is not understood.
    Config,
    /// OSError.
    Io,
    /// A bug of ours, such as a panic at the border.
    Internal,
}

impl Kind {
    /// The name of the class in `pyrmq.errors`.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Path => "SegmentPathError",
            Kind::Layout => "SegmentLayoutError",
            Kind::Option => "SegmentOptionError",
            Kind::UnknownTopic => "UnknownTopicError",
            Kind::OffsetOutOfRange => "OffsetOutOfRangeError",
            Kind::DataLoss => "DataLossError",
            Kind::Damaged => "SegmentDamagedError",
            Kind::Checkpoint => "CheckpointError",
            Kind::Segment => "SegmentError",
            Kind::Config => "ConfigError",
            Kind::Io => "OSError",
            Kind::Internal => "EngineError",
        }
    }
}

/// A part of a text. Parameters stand apart, since each interface has names of its own for them:
/// `starting_offsets` of `pyrmq.scan` is `startingOffsets` in Spark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A parameter, by its name in `pyrmq.scan`.
    Name(&'static str),
    /// A parameter and its value.
    Value(&'static str, &'static str),
    /// The same, with a value that comes from outside.
    Given(&'static str, String),
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Part::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Part::Text(text)
    }
}

#[derive(Debug)]
pub struct SegmentError {
    pub kind: Kind,
    pub text: Vec<Part>,
    /// What to do; None: what the class always says.
    pub hint: Option<Vec<Part>>,
    /// Damage: physical offset of the next record, where one was found.
    pub next_record: Option<u64>,
    /// Of an error of the system.
    pub source: Option<std::io::Error>,
    /// The file of an error of the system.
    pub path: Option<String>,
    /// An error of what the caller gave, such as a Python file system: comes back as it is.
    pub callers: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SegmentError {
    pub fn new(kind: Kind, text: impl Into<Parts>) -> Self {
        SegmentError {
            kind,
            text: text.into().0,
            hint: None,
            next_record: None,
            source: None,
            path: None,
            callers: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Parts>) -> Self {
        self.hint = Some(hint.into().0);
        self
    }

    pub fn io(path: &str, error: std::io::Error) -> Self {
        let mut out = SegmentError::new(Kind::Io, format!("{path}: {error}"));
        out.source = Some(error);
        out.path = Some(path.to_owned());
        out
    }

    /// Text and hint in one, as Python shows an error.
    pub fn with_hint(&self) -> String {
        match &self.hint {
            Some(hint) if !hint.is_empty() => {
                format!("{self} ({})", SegmentError::rendered(hint, plain))
            }
            _ => self.to_string(),
        }
    }

    /// Text, or hint, with the names that `shown` gives to parameters.
    pub fn rendered(parts: &[Part], shown: impl Fn(&str, Option<&str>) -> String) -> String {
        parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Name(name) => shown(name, None),
                Part::Value(name, value) => shown(name, Some(value)),
                Part::Given(name, value) => shown(name, Some(value)),
            })
            .collect()
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&SegmentError::rendered(&self.text, plain))
    }
}

/// A parameter as `pyrmq.scan` names it.
fn plain(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("{name}={value}"),
        None => name.to_owned(),
    }
}

impl std::error::Error for SegmentError {}

impl From<ScanError> for SegmentError {
    /// As the reader says it; who reads a task adds what it is.
    fn from(error: ScanError) -> Self {
        let text = error.to_string();
        match error {
            ScanError::Damaged { next, .. } => {
                let mut out = SegmentError::new(Kind::Damaged, text);
                out.next_record = next;
                out
            }
            ScanError::Io { path, error } => SegmentError::io(&path, error),
            ScanError::Illegal(text) => SegmentError::new(Kind::Segment, text),
            ScanError::TopicRules(error) => match error.downcast::<SegmentError>() {
                Ok(own) => *own,
                Err(other) => {
                    let mut out = SegmentError::new(Kind::Segment, text);
                    out.callers = Some(other);
                    out
                }
            },
        }
    }
}

/// A text as it is made: of one piece, or of parts.
pub struct Parts(Vec<Part>);

impl From<&str> for Parts {
    fn from(text: &str) -> Self {
        Parts(vec![text.into()])
    }
}

impl From<String> for Parts {
    fn from(text: String) -> Self {
        Parts(vec![text.into()])
    }
}

impl<const N: usize> From<[Part; N]> for Parts {
    fn from(parts: [Part; N]) -> Self {
        Parts(parts.into())
    }
}

impl From<Vec<Part>> for Parts {
    fn from(parts: Vec<Part>) -> Self {
        Parts(parts)
    }
}
