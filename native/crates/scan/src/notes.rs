//! What a user should know about a read that goes on: warnings, and why it was planned so. Each
//! border hands them to its own logger (`pyrmq.segments` in Python, SLF4J in the JVM).

use std::sync::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
}

/// More of them are counted only.
const MAX_NOTES: usize = 1000;

#[derive(Debug, Default)]
pub struct Notes(Mutex<Vec<(Level, String)>>);

impl Notes {
    pub fn info(&self, text: impl Into<String>) {
        self.add(Level::Info, text.into());
    }

    pub fn warn(&self, text: impl Into<String>) {
        self.add(Level::Warning, text.into());
    }

    /// All since the last call, in order. Their texts may hold what files and users wrote: whoever
    /// prints them escapes control characters.
    pub fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut *self.lock())
    }

    fn add(&self, level: Level, text: String) {
        let mut notes = self.lock();
        if notes.len() < MAX_NOTES {
            notes.push((level, text));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Level, String)>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
