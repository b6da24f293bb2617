//! How transactions were settled that wait no longer. An op record says that a half is dealt with, and
//! not whether it was committed or rolled back; who comes with the other decision has to be told.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Transactions that are remembered, the last ones that were settled: about 3 MiB.
const REMEMBERED: usize = 1 << 16;

/// By the key that all copies of a transaction share.
#[derive(Default)]
pub(super) struct Decided {
    committed: FxHashMap<u64, bool>,
    order: VecDeque<u64>,
    forgotten: bool,
}

impl Decided {
    pub fn note(&mut self, key: u64, commit: bool) {
        if self.committed.insert(key, commit).is_some() {
            return; // its place stays that of the first time
        }
        self.order.push_back(key);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.committed.remove(&oldest);
            self.forgotten = true;
        }
    }

    /// Whether it was committed; None if that is not remembered.
    pub fn get(&self, key: u64) -> Option<bool> {
        self.committed.get(&key).copied()
    }

    /// Whether some that were settled since the start are not remembered.
    pub fn has_forgotten(&self) -> bool {
        self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut decided = Decided::default();
        for key in 0..REMEMBERED as u64 {
            decided.note(key, key % 2 == 0);
        }
        assert_eq!((decided.get(0), decided.get(1)), (Some(true), Some(false)));
        assert!(!decided.has_forgotten());
        decided.note(u64::MAX, true);
        assert_eq!((decided.get(0), decided.get(1)), (None, Some(false)));
        assert_eq!(decided.get(u64::MAX), Some(true));
        assert!(decided.has_forgotten());
        assert_eq!(decided.committed.len(), REMEMBERED);
    }

    #[test]
    fn the_last_word_counts() {
        let mut decided = Decided::default();
        decided.note(7, false);
        decided.note(7, true);
        assert_eq!((decided.get(7), decided.order.len()), (Some(true), 1));
    }
}
