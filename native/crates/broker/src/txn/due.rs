//! When the producer of a waiting half is asked about it: the one rule.
//!
//! Check passes pick the halves to decide about by it, and pyrmq/txn/machine.py makes the events of its
//! table of it. [TransactionalMessageServiceImpl.check: needDiscard, needSkip, checkImmunityTime]

/// The times that the rule goes by. All in ms.
#[derive(Clone, Copy, Debug)]
pub struct DueRule {
    /// ms since 1970.
    pub now: i64,
    /// transactionTimeOut: a half without an immunity is young up to this age.
    pub timeout: i64,
    /// transactionCheckMax.
    pub check_max: u16,
    /// fileReservedTime.
    pub reserved: i64,
}

/// What time has done to a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Its producer may still decide by itself.
    Young,
    /// Its producer is to be asked.
    Due,
    /// It was asked about transactionCheckMax times.
    Exhausted,
    /// Nobody could be asked about it for as long as messages are kept.
    Expired,
}

impl DueRule {
    /// `born`: bornTimestamp, the producer's clock. `since`: store time of the first copy, or of the last
    /// one that somebody was asked about, ms. `immunity`: CHECK_IMMUNITY_TIME_IN_SECONDS, which stands in
    /// place of transactionTimeOut; negative: not stated. `checks`: how often its producer was asked.
    pub fn timing(&self, born: i64, since: i64, immunity: i32, checks: u16) -> Timing {
        if checks >= self.check_max {
            return Timing::Exhausted;
        }
        if self.now.saturating_sub(since) > self.reserved {
            return Timing::Expired;
        }
        let age = self.now.saturating_sub(born);
        let limit = match immunity {
            seconds @ 0.. => seconds as i64 * 1000,
            _ => self.timeout,
        };
        // bornTimestamp in the future: the clocks differ, nobody knows its age.
        match age > limit || age < 0 {
            true => Timing::Due,
            false => Timing::Young,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_time_does() {
        let rule = |now| DueRule {
            now,
            timeout: 6000,
            check_max: 15,
            reserved: 1_000_000,
        };
        for (age, immunity, checks, timing) in [
            (0, -1, 0, Timing::Young),
            (6000, -1, 0, Timing::Young),
            (6001, -1, 0, Timing::Due),
            (-1, -1, 0, Timing::Due),
            (7000, 7, 14, Timing::Young),
            (7001, 7, 14, Timing::Due),
            (1, 0, 0, Timing::Due),
            (0, -1, 15, Timing::Exhausted),
            (1_000_001, -1, 15, Timing::Exhausted),
            (1_000_000, i32::MAX, 0, Timing::Young),
            (1_000_001, i32::MAX, 0, Timing::Expired),
        ] {
            let found = rule(age).timing(0, 0, immunity, checks);
            assert_eq!(found, timing, "{age} {immunity} {checks}");
        }
        assert_eq!(
            rule(i64::MAX).timing(i64::MIN, 1 << 62, -1, 0),
            Timing::Expired
        );
        assert_eq!(
            rule(i64::MIN).timing(i64::MAX, i64::MAX, -1, 0),
            Timing::Due
        );
    }
}
