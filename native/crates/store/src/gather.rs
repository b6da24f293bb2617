//! How long a flush waits for company.
//!
//! Who was answered by the last flush often sends again at once. If the next flush begins before that
//! is there, senders split into two groups of which one always waits for the other's flush, and each
//! flush carries half of what it could. So a flush that could begin behind another one waits until as
//! much has come again as the last one carried, for half the time of a flush at most, and less when
//! nothing came the last times. A flush behind which nobody waits begins at once.

use std::time::Duration;

const MOST: Duration = Duration::from_millis(1);
/// Shorter waits than this are not worth a wake-up.
const LEAST: Duration = Duration::from_micros(20);

/// After so many flushes a wait that was given up is tried again.
const RECONSIDERED: u64 = 256;

/// What is known of the flushes so far.
#[derive(Default)]
pub struct Gather {
    took: Duration,
    carried: u64,
    /// The time that is waited is halved so often: once more when nothing came, once less when it did.
    shift: u32,
    count: u64,
}

/// A wait for company.
#[derive(Debug, PartialEq, Eq)]
pub struct Wait {
    /// Where the log has to reach for it to end early.
    pub until: u64,
    pub at_most: Duration,
}

impl Gather {
    /// A flush up to `end` is possible, behind one that ended just now.
    pub fn wait(&self, end: u64) -> Option<Wait> {
        let at_most = (self.took / 2).min(MOST) / (1 << self.shift);
        if self.carried == 0 || at_most < LEAST {
            return None;
        }
        // Some senders may have ended; the last of many need not be waited for.
        let company = self.carried - self.carried / 8;
        let until = end.saturating_add(company);
        Some(Wait { until, at_most })
    }

    /// What a wait has led to.
    pub fn waited(&mut self, wait: &Wait, end: u64) {
        self.shift = if end >= wait.until {
            self.shift.saturating_sub(1)
        } else {
            (self.shift + 1).min(5)
        };
    }

    /// A flush has carried so many bytes.
    pub fn flushed(&mut self, carried: u64, took: Duration) {
        (self.carried, self.took) = (carried, took);
        self.count += 1;
        if self.count.is_multiple_of(RECONSIDERED) {
            self.shift = self.shift.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Duration = Duration::from_micros(400);

    #[test]
    fn it_waits_for_as_much_as_the_last_flush_carried() {
        let mut gather = Gather::default();
        assert_eq!(gather.wait(100), None, "nothing was flushed so far");
        gather.flushed(800, FLUSH);
        let wait = gather.wait(1000).unwrap();
        assert_eq!((wait.until, wait.at_most), (1700, FLUSH / 2));
        gather.flushed(800, Duration::from_secs(3));
        assert_eq!(gather.wait(1000).unwrap().at_most, MOST);
        gather.flushed(800, Duration::from_micros(30));
        assert_eq!(gather.wait(1000), None, "too short to be worth it");
    }

    #[test]
    fn it_waits_less_when_nobody_comes() {
        let mut gather = Gather::default();
        gather.flushed(800, FLUSH);
        let mut last = FLUSH;
        while let Some(wait) = gather.wait(1000) {
            assert!(wait.at_most < last);
            last = wait.at_most;
            gather.waited(&wait, wait.until - 1);
        }
        assert!(last >= LEAST);
        for _ in 0..RECONSIDERED {
            gather.flushed(800, FLUSH);
        }
        assert!(gather.wait(1000).is_some(), "it is tried again");
        // Flushes that take longer are waited for again, a little, and success counts.
        gather.flushed(800, Duration::from_secs(1));
        let short = gather.wait(1000).unwrap();
        gather.waited(&short, short.until);
        assert!(gather.wait(1000).unwrap().at_most > short.at_most);
    }
}
