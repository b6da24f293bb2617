//! When the loop itself flushes what its rounds have written (SYNC_FLUSH).
//!
//! Waking the log's thread and being woken by it costs about as much as a quick flush. So the loop holds
//! the flush of a round back. Where nothing more is ready it flushes by itself: nobody is kept waiting
//! but those who wait for that flush. Where more is ready, that comes first for a moment, so that one
//! flush carries it too; then the log's thread flushes and the loop goes on.
//! Where the loop's own flushes take long, it leaves them to the log's thread: more of them after each.
//! The disk may hang in one of them, and nobody is served meanwhile (docs/decisions/004-slow-disk-thread.md).

use super::patience::Patience;
use pyrmq_store::{Gather, GatherWait};
use std::ops::Range;
use std::time::Duration;

/// A flush that takes longer kept the loop too long, ns.
const LONG: i64 = 1_000_000;
/// One that takes longer is a sign of a slow disk, ns.
const SLOW: i64 = 100_000_000;
/// What is ready comes first for so long, ns, and for a second round in any case: what peers send at once
/// is often more than one receives at once.
const MOMENT: i64 = 100_000;
const ROUNDS: u32 = 2;

#[derive(Default)]
pub struct HeldFlush {
    /// When the first round was served whose flush is held back, and how many were.
    since: Option<(i64, u32)>,
    patience: Patience,
    gather: Gather,
    /// Requests came while the loop flushed: those that it answered then may send again at once.
    is_behind: bool,
    /// What it waits for, and until when.
    company: Option<(GatherWait, i64)>,
}

/// What is to become of a flush that is held back, where nothing is ready.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// More may come within so many ns.
    Wait(i64),
    /// The loop flushes.
    Own,
    /// The log's thread does.
    Others,
}

impl HeldFlush {
    /// A round begins whose flush is held back.
    pub fn hold(&mut self, now: i64) {
        self.since.get_or_insert((now, 0)).1 += 1;
    }

    pub fn is_held(&self) -> bool {
        self.since.is_some()
    }

    /// Whether what is ready comes first.
    pub fn gathers(&self, now: i64) -> bool {
        let waits = self.company.as_ref().is_some_and(|(_, end)| now < *end);
        waits || (self.since).is_some_and(|(since, rounds)| now - since < MOMENT || rounds < ROUNDS)
    }

    /// Nothing is ready. `asked`: what is to be flushed.
    pub fn next(&mut self, asked: &Range<u64>, now: i64) -> Next {
        if self.company.is_none() {
            if !self.patience.tries() {
                return Next::Others;
            }
            if std::mem::take(&mut self.is_behind) {
                let wait = self.gather.wait(asked.end);
                self.company = wait.map(|wait| {
                    let end = now + wait.at_most.as_nanos() as i64;
                    (wait, end)
                });
            }
        }
        if let Some((wait, end)) = &self.company {
            if asked.end < wait.until && now < *end {
                return Next::Wait(end - now);
            }
            self.gather.waited(wait, asked.end);
            self.company = None;
        }
        Next::Own
    }

    /// The loop has flushed so many bytes, within so many ns.
    pub fn flushed(&mut self, carried: u64, took: i64) {
        let took = took.max(0);
        self.gather
            .flushed(carried, Duration::from_nanos(took as u64));
        match took {
            SLOW.. => self.patience.is_over(),
            LONG.. => self.patience.missed(),
            _ => self.patience.came(),
        }
    }

    /// Whether something else was ready behind that.
    pub fn note_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// It is held back no longer. Whether it was.
    pub fn end(&mut self) -> bool {
        self.company = None;
        self.since.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: i64 = 200_000;
    const ASKED: Range<u64> = 1000..1800;

    #[test]
    fn what_is_ready_comes_first_for_a_moment_and_two_rounds() {
        let mut held = HeldFlush::default();
        assert!(!held.is_held() && !held.gathers(0));
        held.hold(10);
        assert!(held.gathers(10 + MOMENT), "the second round");
        held.hold(10 + MOMENT);
        assert!(held.gathers(9 + MOMENT) && !held.gathers(10 + MOMENT));
        assert!(held.end() && !held.end() && !held.is_held());
    }

    #[test]
    fn it_leaves_flushes_that_take_long_to_others() {
        let mut held = HeldFlush::default();
        let others = |held: &mut HeldFlush| {
            let next = |_: &u32| held.next(&ASKED, 0) == Next::Own;
            (0..).find(next).unwrap()
        };
        held.flushed(800, QUICK);
        assert_eq!(others(&mut held), 0);
        held.flushed(800, LONG);
        held.flushed(800, LONG);
        assert_eq!(others(&mut held), 2);
        held.flushed(800, SLOW);
        assert_eq!(others(&mut held), 256);
    }

    #[test]
    fn it_waits_for_those_it_answered_where_others_came_meanwhile() {
        let mut held = HeldFlush::default();
        held.flushed(800, QUICK);
        held.hold(5);
        assert_eq!(held.next(&ASKED, 5), Next::Own, "nobody came");
        held.end();
        held.note_behind(true);
        held.hold(5);
        assert_eq!(held.next(&ASKED, 5), Next::Wait(QUICK / 2));
        assert!(held.gathers(4 + QUICK / 2), "they come first");
        assert_eq!(held.next(&(1000..2000), 6), Next::Wait(QUICK / 2 - 1));
        assert_eq!(held.next(&(1000..2500), 7), Next::Own, "they are there");
        held.end();
        held.note_behind(true);
        held.hold(5);
        assert_eq!(held.next(&ASKED, 5), Next::Wait(QUICK / 2));
        assert_eq!(held.next(&ASKED, 5 + QUICK / 2), Next::Own, "time is over");
        assert_eq!(held.next(&ASKED, 5 + QUICK / 2), Next::Own, "once");
    }
}
