//! How a session answers: at once, or once the log is confirmed; and what is entered of it.

use super::super::book::{Answered, Asked, Book, Clock};
use super::super::reply::To;
use super::{Context, Feed, Session};
use crate::codes;
use crate::rpc_figures::{Fate, Kind};

impl Session {
    /// The time of the calls that follow, µs of the monotonic clock, which also say it in ms. What is fed
    /// next has been ready for `waited` µs.
    pub fn set_clock(&mut self, now: i64, waited: i64) {
        self.clock = Clock {
            now,
            waited: waited.clamp(0, u32::MAX.into()) as u32,
        };
    }

    /// The request that is handled next was ready since then, µs; 0: since now. `now_ms` as it will say.
    pub fn set_since(&mut self, since: i64, now_ms: i64) {
        let now = self.now_us(now_ms);
        let since = if since > 0 { since } else { now };
        self.set_clock(now, now - since);
    }

    pub(super) fn now_us(&self, now_ms: i64) -> i64 {
        self.clock.now.max(now_ms.saturating_mul(1000))
    }

    /// What a request that is fed now is entered with.
    pub(super) fn begin(&mut self, now_ms: i64) -> Asked {
        let waited = std::mem::take(&mut self.clock.waited);
        Asked::new(self.now_us(now_ms), waited)
    }

    /// A request was answered at once, or needs no answer.
    #[inline]
    pub(super) fn answered(&mut self, asked: Asked, response: i32, is_oneway: bool) {
        match self.answered.last_mut() {
            Some(last)
                if last.asked == asked
                    && last.response == response
                    && last.is_oneway == is_oneway =>
            {
                last.count += 1;
            }
            _ => self.answered.push(Answered {
                asked,
                response,
                is_oneway,
                count: 1,
            }),
        }
    }

    /// Whether `settle` has something to enter.
    pub fn is_to_settle(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Enters what was answered at once; `now` is the time, µs.
    pub fn settle(&mut self, now: i64) {
        let Some(context) = self.context.as_ref() else {
            self.answered.clear();
            return;
        };
        for answered in self.answered.drain(..) {
            let kind = Kind {
                fate: match answered.is_oneway {
                    true => Fate::Oneway,
                    false => Fate::Success,
                },
                ..answered.asked.kind(answered.response)
            };
            let store = context.broker.store();
            let mut book = Book::new(store, &context.figures, self.born_host, now);
            book.enter(answered.asked, kind, answered.count);
        }
    }

    /// Keeps the answer that begins at `start` of the output until the log is confirmed up to `log_end`.
    #[inline(always)]
    pub(super) fn keep_unconfirmed(
        &mut self,
        feed: &mut Feed<'_, '_>,
        to: To,
        asked: Asked,
        start: usize,
        log_end: u64,
    ) {
        if waits(feed.context, log_end) {
            let answer = &feed.out[start..];
            let kept = &mut self.unconfirmed;
            kept.push(to, log_end, asked, codes::SUCCESS, answer);
            feed.out.truncate(start);
        } else {
            self.answered(asked, codes::SUCCESS, false);
        }
    }

    /// Keeps an answer that waits for nothing behind others that wait for this round's write only, so
    /// that answers come in the order of the requests.
    pub(super) fn keep_order(
        &mut self,
        feed: &mut Feed<'_, '_>,
        to: To,
        asked: Asked,
        response: i32,
        start: usize,
    ) {
        if self.unconfirmed.len() > 0 && feed.context.is_some_and(|c| !c.broker.store().is_sync()) {
            let answer = &feed.out[start..];
            self.unconfirmed.push(to, 0, asked, response, answer);
            feed.out.truncate(start);
        } else {
            self.answered(asked, response, false);
        }
    }

    /// What was stored is in the log's file now, or could not be written: with ASYNC_FLUSH all can
    /// be answered, otherwise what failed.
    pub(super) fn release_written(&mut self, now_ms: i64, out: &mut Vec<u8>) {
        let store = self.context.as_ref().map(|c| c.broker.store());
        if store.is_some_and(|s| !s.is_sync() || s.barrier().unwritten().is_some()) {
            self.release(now_ms, i64::MAX, out);
        }
    }

    /// Takes an answer of code 0 that the broker encoded. It waits with the others for `log_end`, or
    /// leaves by `out` where nothing waits. `code`: of its request; with `long_polling` that has waited
    /// for messages.
    #[allow(clippy::too_many_arguments)]
    pub fn answer(
        &mut self,
        answer: &[u8],
        to: To,
        code: i32,
        long_polling: bool,
        log_end: u64,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) {
        let asked = self.begin(now_ms).of(code);
        let asked = match long_polling {
            true => asked.parked(),
            false => asked,
        };
        if waits(self.context.as_deref(), log_end) {
            let kept = &mut self.unconfirmed;
            kept.push(to, log_end, asked, codes::SUCCESS, answer);
        } else {
            out.extend_from_slice(answer);
            self.answered(asked, codes::SUCCESS, false);
        }
    }

    /// Appends the unconfirmed answers that wait no longer: confirmed ones, those older than
    /// `timeout_ms`, and after a failed write or flush all of them; see `codes::of_outcome`.
    pub fn release(&mut self, now_ms: i64, timeout_ms: i64, out: &mut Vec<u8>) {
        let Some(context) = self.context.as_ref().filter(|_| self.unconfirmed.len() > 0) else {
            return;
        };
        let store = context.broker.store();
        let barrier = store.barrier();
        let now = self.now_us(now_ms);
        let mut book = Book::new(store, &context.figures, self.born_host, now);
        self.unconfirmed.release(
            barrier.confirmed(),
            |log_end, fed| barrier.outcome(log_end, (now - fed) / 1000, timeout_ms),
            || {
                let why = barrier.failure().or_else(|| barrier.unwritten());
                why.map_or_else(String::new, |e| e.to_string())
            },
            &mut book,
            out,
        );
    }

    /// Answers that wait until their records are confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.unconfirmed.len()
    }

    /// Whether so many answers wait that the peer is not to be read on.
    pub fn is_full(&self) -> bool {
        self.unconfirmed.is_full()
    }
}

/// Whether an answer that acknowledges what lies below `log_end` waits for the barrier.
fn waits(context: Option<&Context>, log_end: u64) -> bool {
    log_end > 0 && context.is_some_and(|c| !c.broker.store().barrier().is_confirmed(log_end))
}
