//! What a check has to say.

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is lost, wrong or unreachable.
    Damage,
    /// Works, but somebody should know.
    Warning,
    /// To be expected, as after a kill.
    Note,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Damage => "damage",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// One line of a report: where, and what.
#[derive(Clone, Debug)]
pub struct Finding {
    pub severity: Severity,
    /// A short word to select by: record, file, queue, index, checkpoint, config.
    pub kind: &'static str,
    /// Path below the store's folder (or the whole path of a file elsewhere).
    pub path: String,
    /// Byte in that file.
    pub at: Option<u64>,
    pub text: String,
}

/// Most findings that are kept; the rest is counted.
const MAX_KEPT: usize = 10_000;

#[derive(Default)]
pub struct Findings {
    kept: Vec<Finding>,
    taken: usize,
    pub damage: u64,
    pub warnings: u64,
    pub notes: u64,
    pub left_out: u64,
}

impl Findings {
    pub fn add(
        &mut self,
        severity: Severity,
        kind: &'static str,
        path: &str,
        at: impl Into<Option<u64>>,
        text: String,
    ) {
        match severity {
            Severity::Damage => self.damage += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        if self.taken + self.kept.len() >= MAX_KEPT {
            self.left_out += 1;
            return;
        }
        self.kept.push(Finding {
            severity,
            kind,
            path: path.to_owned(),
            at: at.into(),
            text,
        });
    }

    pub fn damage(
        &mut self,
        kind: &'static str,
        path: &str,
        at: impl Into<Option<u64>>,
        text: String,
    ) {
        self.add(Severity::Damage, kind, path, at, text);
    }

    /// Those since the last call.
    pub fn take(&mut self) -> Vec<Finding> {
        self.taken += self.kept.len();
        std::mem::take(&mut self.kept)
    }
}

/// A name from a file as it may be printed: without control characters, at most 100 characters.
pub fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(400)]);
    text.chars()
        .take(100)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
