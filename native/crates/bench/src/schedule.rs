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
    /// `rate` requests a second; the first one this part of the time between two behind `start`.
    pub fn new(start: u64, rate: f64, shift: f64) -> Schedule {
        let every = 1e9 / rate;
        Schedule {
            start,
            every,
            shift: every * shift,
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

    /// Those that are due before `end` and not sent, in groups: how long the middle one of a group
    /// waited until `end`, and how many they are. Never more groups than `most`.
    pub fn unsent(&self, from: u64, end: u64, most: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let before = |t: u64| self.behind(t.saturating_sub(1)) + self.next;
        let (first, last) = (before(from).max(self.next), before(end));
        let many = last.saturating_sub(first);
        let each = many.div_ceil(most).max(1);
        (0..many.div_ceil(each)).map(move |group| {
            let at = first + group * each;
            let size = each.min(last - at);
            (end.saturating_sub(self.at(at + size / 2)), size)
        })
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
            let mut one = Schedule::new(1_000, 250.0, f64::from(index) / 4.0);
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
        let mut one = Schedule::new(0, 3.0, 0.0);
        for _ in 0..3_000_000 {
            one.advance();
        }
        assert!(one.due().abs_diff(1_000_000_000_000_000) < 1_000);
    }

    #[test]
    fn what_was_not_sent_is_behind() {
        let mut one = Schedule::new(1_000_000_000, 10.0, 0.0);
        assert_eq!(one.behind(999_999_999), 0);
        assert_eq!(one.behind(1_000_000_000), 1);
        assert_eq!(one.behind(2_050_000_000), 11);
        one.advance();
        assert_eq!(one.behind(2_050_000_000), 10);
        // The time it was due stays, however late it is sent.
        assert_eq!(one.due(), 1_100_000_000);
    }

    #[test]
    fn what_was_never_sent_has_waited() {
        let mut one = Schedule::new(1_000, 1e9, 0.0); // one a ns
        (0..10).for_each(|_| one.advance());
        let all: Vec<_> = one.unsent(0, 1_020, 100).collect();
        let want: Vec<_> = (1..=10).rev().map(|wait| (wait, 1)).collect();
        assert_eq!(all, want);
        // Those due before the window are not of it.
        assert_eq!(one.unsent(1_015, 1_020, 100).count(), 5);
        // In groups: as many in all, and each in the middle of its own.
        let groups: Vec<_> = one.unsent(0, 1_020, 3).collect();
        assert_eq!(groups, [(8, 4), (4, 4), (1, 2)]);
        assert_eq!(one.unsent(0, 1_005, 3).count(), 0);
        assert_eq!(one.unsent(2_000, 1_020, 3).count(), 0);
    }
}
