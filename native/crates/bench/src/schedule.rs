//! When the requests of an open loop are due.

/// The requests of one connection: evenly spaced, and interleaved with those of the others. A request
/// is due whether or not the ones before it were answered.
#[derive(Clone, Debug)]
pub struct Schedule {
    start: u64,
    /// Nanoseconds from one to the next.
    every: f64,
    /// Of the first, behind `start`.
    shift: f64,
    next: u64,
}

impl Schedule {
    /// Of `rate` requests a second on all of `of` connections, those of connection `index`.
    pub fn new(start: u64, rate: f64, index: usize, of: usize) -> Schedule {
        let every = 1e9 / rate * of as f64;
        Schedule {
            start,
            every,
            shift: every * index as f64 / of as f64,
            next: 0,
        }
    }

    fn at(&self, n: u64) -> u64 {
        // Counted from the start each time: no error adds up.
        self.start + (self.shift + self.every * n as f64) as u64
    }

    /// When the next one is due.
    pub fn due(&self) -> u64 {
        self.at(self.next)
    }

    /// The next one was sent.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// How many are due and not sent.
    pub fn behind(&self, now: u64) -> u64 {
        let passed = (now as f64 - self.start as f64 - self.shift) / self.every;
        if passed < 0.0 {
            return 0;
        }
        (passed as u64 + 1).saturating_sub(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns() {
        let mut all = Vec::new();
        for index in 0..4 {
            let mut one = Schedule::new(1_000, 1_000.0, index, 4);
            for _ in 0..5 {
                all.push(one.due());
                one.advance();
            }
        }
        all.sort_unstable();
        let want: Vec<u64> = (0..20).map(|n| 1_000 + n * 1_000_000).collect();
        assert_eq!(all, want);
    }

    #[test]
    fn nothing_adds_up() {
        let mut one = Schedule::new(0, 3.0, 0, 1);
        for _ in 0..3_000_000 {
            one.advance();
        }
        assert!(one.due().abs_diff(1_000_000_000_000_000) < 1_000);
    }

    #[test]
    fn what_was_not_sent_is_behind() {
        let mut one = Schedule::new(1_000_000_000, 10.0, 0, 1);
        assert_eq!(one.behind(999_999_999), 0);
        assert_eq!(one.behind(1_000_000_000), 1);
        assert_eq!(one.behind(2_050_000_000), 11);
        one.advance();
        assert_eq!(one.behind(2_050_000_000), 10);
        // The time it was due stays, however late it is sent.
        assert_eq!(one.due(), 1_100_000_000);
    }
}
