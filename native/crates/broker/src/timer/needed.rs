//! What of the commit log timers still need.
//!
//! Units stand in the timer log in the order of their records in the commit log. So the oldest unit of a slot
//! that is not blank has the oldest record that waits. It is what the kept check point needs: a start
//! goes on from there.

use super::prepared::Needed;
use super::{Timers, Work};
use pyrmq_format::timer::LogEntry;
use pyrmq_store::Result;

impl Timers {
    /// Physical offset of the first record of rmq_sys_wheel_timer that is still to be delivered, as the
    /// check point says that is on disk; u64::MAX: there is none.
    pub fn needed_from(&self) -> Result<u64> {
        let needed = *self.needed.lock();
        let mut first = needed.waiting;
        let mut offset = needed.queue_offset.max(self.queue.min_offset());
        while offset < self.queue.max_offset() {
            let entry = self.queue.entry(offset)?.map(|e| e.cq);
            if let Some(cq) = entry.filter(|cq| cq.is_valid() && !cq.is_blank()) {
                first = first.min(cq.phys.max(0) as u64);
                break;
            }
            offset += 1;
        }
        Ok(first)
    }

    pub(super) fn needed_now(&self, work: &mut Work) -> Result<Needed> {
        if work.rebuild.is_some() {
            return Ok(Needed::ALL);
        }
        let first = self.wheel.lock().slots().map(|slot| slot.first).min();
        let waiting = match first {
            Some(first) => self.record_at(work, first)?,
            None => u64::MAX,
        };
        Ok(Needed {
            waiting,
            queue_offset: work.queue_offset,
        })
    }

    /// The physical offset that the first unit has that stands at a position of the timer log or behind it.
    fn record_at(&self, work: &mut Work, position: i64) -> Result<u64> {
        let log = &mut work.log;
        let mut at = log.aligned(log.min().max(position.max(0) as u64));
        while at < log.end() {
            let entry = log.read(at, true)?;
            match (&entry, log.after(at, &entry)) {
                (LogEntry::Unit(unit), _) => return Ok(unit.phys.max(0) as u64),
                (_, Some(next)) => at = next,
                (_, None) => break,
            }
        }
        Ok(0) // something waits, and nobody knows where
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{HOUR, Rig, T};

    fn kept(rig: &Rig) -> u64 {
        rig.keep();
        rig.timers.needed_from().unwrap()
    }

    #[test]
    fn the_oldest_record_that_waits() {
        let rig = Rig::new();
        assert_eq!(kept(&rig), u64::MAX, "there was never one");
        let late = rig.park(T + HOUR, "late").phys;
        let soon = rig.park(T + 5_000, "soon").phys;
        assert_eq!(rig.timers.needed_from().unwrap(), late, "in the queue only");
        rig.timers.enqueue(T, 10).unwrap();
        assert_eq!(kept(&rig), late);
        rig.timers.deliver(T + 10_000, 10);
        let last = rig.park(T + 3 * HOUR, "last").phys;
        assert_eq!(kept(&rig), late);
        rig.timers.deliver(T + 2 * HOUR, 10);
        assert_eq!(
            rig.timers.needed_from().unwrap(),
            late,
            "until that is kept"
        );
        assert_eq!(kept(&rig), last);
        rig.timers.deliver(T + 4 * HOUR, 10);
        assert_eq!(kept(&rig), u64::MAX);
        assert!(late < soon && soon < last);
    }

    #[test]
    fn after_a_kill_what_the_kept_check_point_needs() {
        let rig = Rig::new();
        let first = rig.park(T + 5_000, "first").phys;
        rig.timers.enqueue(T, 10).unwrap();
        rig.keep();
        rig.park(T + HOUR, "second");
        rig.timers.deliver(T + 10_000, 10);
        let killed = rig.killed(T + 20_000);
        assert_eq!(killed.timers.needed_from().unwrap(), first);
        killed.timers.deliver(T + 2 * HOUR, 10);
        assert_eq!(kept(&killed), u64::MAX);
    }

    #[test]
    fn while_all_is_made_again_all_is_needed() {
        let rig = Rig::new();
        rig.park(T + HOUR, "waits");
        rig.timers.enqueue(T, 10).unwrap();
        rig.keep();
        let again = rig.opened_again_without("timerlog");
        assert_eq!(again.timers.needed_from().unwrap(), 0);
    }
}
