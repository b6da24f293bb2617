//! Records of the log that can be in no queue.

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

/// Most reasons that are told apart.
const MAX_REASONS: usize = 64;

/// Such records stay in the log, and readers of the log find them. Each reason is logged once.
#[derive(Default)]
pub struct LeftOut {
    reasons: Mutex<FxHashSet<String>>,
}

impl LeftOut {
    /// The record at `phys` is in no queue. Whether that was logged.
    pub fn tell(&self, phys: u64, why: String) -> bool {
        let mut reasons = self.reasons.lock();
        if reasons.len() > MAX_REASONS || reasons.contains(&why) {
            return false;
        }
        if reasons.len() == MAX_REASONS {
            log::warn!("more records are in no queue, for other reasons: they are not logged");
        } else {
            log::warn!("record at {phys} is in no queue: {why}; others like it are not logged");
        }
        reasons.insert(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once() {
        let left_out = LeftOut::default();
        assert!(left_out.tell(0, "a".into()));
        assert!(!left_out.tell(1, "a".into()));
        let told = (0..1000).filter(|n| left_out.tell(2, format!("{n}")));
        assert_eq!(told.count(), MAX_REASONS);
    }
}
