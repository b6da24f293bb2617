//! Answers that wait until what they acknowledge is confirmed, in the order in which they came.
//!
//! An answer is kept as its encoded bytes with opaque and serialize type; the request's frame and
//! body are gone by then. The bytes of all answers lie in one buffer, from `start` on.

use super::book::{Asked, Leaving, Witness};
use super::reply::{self, To};
use crate::codes;
use pyrmq_store::Outcome;
use std::collections::VecDeque;

/// Answers, and bytes of them, after which a connection is not read on.
pub const MAX_COUNT: usize = 4096;
pub const MAX_BYTES: usize = 4 << 20;
/// A buffer larger than this is given back when it is empty.
const KEEP: usize = 64 << 10;

struct Answer {
    /// The log must be confirmed up to this physical offset.
    log_end: u64,
    asked: Asked,
    /// The code that it says.
    response: i32,
    to: To,
    len: u32,
}

#[derive(Default)]
pub struct Unconfirmed {
    answers: VecDeque<Answer>,
    bytes: Vec<u8>,
    start: usize,
}

impl Unconfirmed {
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether the peer has to wait before it is read on.
    pub fn is_full(&self) -> bool {
        self.answers.len() >= MAX_COUNT || self.bytes.len() - self.start >= MAX_BYTES
    }

    /// Keeps an answer with this code that was encoded for `to`. One that waits for the log has code 0.
    pub fn push(&mut self, to: To, log_end: u64, asked: Asked, response: i32, answer: &[u8]) {
        if self.start > KEEP && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(answer);
        self.answers.push_back(Answer {
            log_end,
            asked,
            response,
            to,
            len: answer.len() as u32,
        });
    }

    /// Appends to `out` all answers that wait no longer: as they are if they are confirmed (below
    /// `confirmed`, or as `outcome(log_end, fed)` says), otherwise under the code of that outcome. `failure` is
    /// asked for the reason of `Outcome::Failed` and `Outcome::NotWritten`, `witness` is told of each that
    /// leaves.
    pub fn release(
        &mut self,
        confirmed: u64,
        outcome: impl Fn(u64, i64) -> Outcome,
        failure: impl Fn() -> String,
        witness: &mut impl Witness,
        out: &mut Vec<u8>,
    ) {
        let mut leaving = 0; // bytes of answers in a row that leave as they are
        while let Some(answer) = self.answers.front() {
            let outcome = match answer.log_end <= confirmed {
                true => Outcome::Confirmed,
                false => outcome(answer.log_end, answer.asked.fed()),
            };
            let Some(code) = codes::of_outcome(outcome) else {
                break;
            };
            let (to, len) = (answer.to, answer.len as usize);
            let told = Leaving {
                asked: answer.asked,
                response: match code {
                    codes::SUCCESS => answer.response,
                    code => code,
                },
                log_end: answer.log_end,
            };
            if witness.leaves(told) {
                let at = self.start + leaving;
                witness.was_slow(told, &self.bytes[at..at + len]);
            }
            self.answers.pop_front();
            if code == codes::SUCCESS {
                leaving += len;
                continue;
            }
            self.move_out(&mut leaving, out);
            let bytes = &self.bytes[self.start..self.start + len];
            let why = match outcome {
                Outcome::Failed => Some("not stored durably"),
                Outcome::NotWritten => Some("not stored, unless a later attempt succeeds"),
                _ => None,
            };
            match why {
                Some(what) => {
                    let why = format!("{what}: {}", failure());
                    reply::push(out, to, code, Some(&why), &[]);
                }
                None => reply::push_with_code(out, to.codec, bytes, code),
            }
            self.start += len;
        }
        self.move_out(&mut leaving, out);
        if self.answers.is_empty() {
            self.start = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEEP {
                *self = Unconfirmed::default();
            }
        }
    }

    fn move_out(&mut self, len: &mut usize, out: &mut Vec<u8>) {
        let end = self.start + std::mem::take(len);
        out.extend_from_slice(&self.bytes[self.start..end]);
        self.start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{Codec, split};
    use crate::wire::header::Header;
    use proptest::prelude::*;

    fn asked(fed: i64) -> Asked {
        Asked::new(fed, 0).of(310)
    }

    /// Finds all slow.
    #[derive(Default)]
    struct Told(Vec<(Leaving, Vec<u8>)>);

    impl Witness for Told {
        fn leaves(&mut self, _: Leaving) -> bool {
            true
        }

        fn was_slow(&mut self, answer: Leaving, bytes: &[u8]) {
            self.0.push((answer, bytes.to_vec()));
        }
    }

    fn answer(opaque: i32, codec: Codec) -> (To, Vec<u8>) {
        let to = To { codec, opaque };
        let mut bytes = Vec::new();
        let filler = vec![b'x'; opaque as usize % 50 + 1];
        reply::push(&mut bytes, to, codes::SUCCESS, None, &[(b"msgId", &filler)]);
        (to, bytes)
    }

    /// (opaque, code) of all answers.
    fn codes_of(mut out: &[u8]) -> Vec<(i32, i32)> {
        let mut found = Vec::new();
        let mut h = Header::default();
        while let Some(parts) = split(out).unwrap() {
            h.read(parts.codec, out, parts.header_end).unwrap();
            found.push((h.opaque, h.code));
            out = &out[parts.total..];
        }
        assert!(out.is_empty());
        found
    }

    #[test]
    fn it_is_full_by_count_and_by_bytes() {
        let mut many = Unconfirmed::default();
        let (to, bytes) = answer(1, Codec::Json);
        for _ in 0..MAX_COUNT {
            assert!(!many.is_full());
            many.push(to, 1, asked(0), 0, &bytes);
        }
        assert!(many.is_full());
        let mut out = Vec::new();
        let told = &mut Told::default();
        many.release(1, |_, _| Outcome::Pending, String::new, told, &mut out);
        assert!(!many.is_full() && many.len() == 0);
        assert_eq!(out.len(), MAX_COUNT * bytes.len());

        let mut large = Unconfirmed::default();
        large.push(to, 1, asked(0), 0, &vec![0; MAX_BYTES]);
        assert!(large.is_full());
    }

    #[test]
    fn a_failure_is_reported_with_its_reason() {
        let mut kept = Unconfirmed::default();
        for opaque in 0..3 {
            let (to, bytes) = answer(opaque, Codec::RocketMq);
            kept.push(to, opaque as u64, asked(0), 0, &bytes);
        }
        let mut out = Vec::new();
        let outcome = |end, _| {
            if end == 0 {
                Outcome::Confirmed
            } else {
                Outcome::Failed
            }
        };
        let mut told = Told::default();
        kept.release(0, outcome, || "EIO".into(), &mut told, &mut out);
        let as_kept = |opaque| answer(opaque, Codec::RocketMq).1;
        let left = told.0.into_iter();
        let left: Vec<_> = left
            .map(|(l, bytes)| (l.response, l.log_end, bytes))
            .collect();
        let expected = [(0, 0, as_kept(0)), (14, 1, as_kept(1)), (14, 2, as_kept(2))];
        assert_eq!(left, expected);
        assert_eq!(codes_of(&out), [(0, 0), (1, 14), (2, 14)]);
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.contains("not stored durably: EIO"));
    }

    proptest! {
        /// Against a plain list: every answer leaves once, in order, when the front need not wait.
        #[test]
        fn as_a_list(steps in prop::collection::vec((0u64..20, 0u64..400), 1..200)) {
            let mut kept = Unconfirmed::default();
            let mut model: VecDeque<(i32, u64, i64)> = VecDeque::new();
            let (mut end, mut flushed, mut opaque, mut now) = (0, 0, 0, 0);
            for (count, advance) in steps {
                now += 7;
                for _ in 0..count {
                    end += 10;
                    opaque += 1;
                    let codec = if opaque % 2 == 0 { Codec::Json } else { Codec::RocketMq };
                    let (to, bytes) = answer(opaque, codec);
                    kept.push(to, end, asked(now), 0, &bytes);
                    model.push_back((opaque, end, now));
                }
                flushed = (flushed + advance).min(end);
                let late = |end: u64| end.is_multiple_of(70);
                let mut out = Vec::new();
                let outcome = |end, _| match () {
                    () if end <= flushed => Outcome::Confirmed,
                    () if late(end) => Outcome::FlushTimedOut,
                    () => Outcome::Pending,
                };
                let mut witness = Told::default();
                kept.release(0, outcome, String::new, &mut witness, &mut out);
                let left: Vec<_> = witness.0.iter().map(|(l, _)| (l.asked.fed(), l.response)).collect();
                let (mut expected, mut told) = (Vec::new(), Vec::new());
                while let Some(&(opaque, end, fed)) = model.front() {
                    if end > flushed && !late(end) {
                        break;
                    }
                    model.pop_front();
                    let code = if end <= flushed { 0 } else { 10 };
                    expected.push((opaque, code));
                    told.push((fed, code));
                }
                prop_assert_eq!(codes_of(&out), expected);
                prop_assert_eq!(left, told);
                prop_assert_eq!(kept.len(), model.len());
            }
        }
    }
}
