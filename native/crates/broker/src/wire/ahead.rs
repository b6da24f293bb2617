//! Looks ahead at the frames of a feed: reads their headers and verifies their signatures, many at once.
//!
//! The text that is signed is the values of all ext fields but the signature, in the order of their names,
//! and then the body. A request that is not verified here is nobody's: the broker in Python may know better
//! (clients that sign in another way), or refuses it.

use super::WireError;
use super::access::{Guard, Verified};
use super::frame::{self, Parts};
use super::header::Header;
use super::order::Order;
use super::shape::Shapes;
use pyrmq_format::json::Raw;
use pyrmq_sign::{Job, MOST, SIGNATURE, is_signature, macs};
use std::ops::Range;
use std::sync::Arc;

/// A longer header is not verified.
const MAX_HEADER: usize = 64 << 10;
/// Memory for signed texts that is kept from one feed to the next.
const KEEP: usize = 64 << 10;
/// A signature whose letters are all escaped.
const MAX_SIGNATURE: usize = 6 * SIGNATURE;

/// One frame.
#[derive(Default)]
struct Frame {
    header: Header,
    /// Its signed values, in `texts`.
    values: Range<usize>,
    signature: Range<usize>,
    /// Place in `signers` of who it says has signed it, then of who has.
    signer: Option<usize>,
    /// Nobody has its access key.
    is_strangers: bool,
}

/// Memory that one feed after the other uses.
#[derive(Default)]
pub struct Ahead {
    frames: Vec<Frame>,
    parts: Vec<Parts>,
    texts: Vec<u8>,
    signers: Vec<Verified>,
    /// Of headers that have no shape.
    order: Option<Order>,
}

impl Ahead {
    /// Reads the whole frames at the start of `data`, so many as are verified at once. What comes first
    /// counts: an error is that of the frame behind those that were read.
    pub fn read(
        &mut self,
        shapes: &mut Shapes,
        guard: &mut Guard,
        data: &[u8],
    ) -> Result<(), WireError> {
        self.texts.clear();
        self.texts.shrink_to(KEEP);
        self.signers.clear();
        self.parts.clear();
        let mut at = 0;
        let mut done = Ok(());
        while self.parts.len() < MOST {
            let rest = &data[at..];
            let parts = match frame::split(rest) {
                Ok(Some(parts)) => parts,
                Ok(None) => break,
                Err(e) => {
                    done = Err(e);
                    break;
                }
            };
            if let Err(e) = self.read_frame(shapes, guard, &rest[..parts.total], parts) {
                done = Err(e);
                break;
            }
            at += parts.total;
        }
        self.verify(data);
        done
    }

    fn read_frame(
        &mut self,
        shapes: &mut Shapes,
        guard: &mut Guard,
        frame: &[u8],
        parts: Parts,
    ) -> Result<(), WireError> {
        let n = self.parts.len();
        if self.frames.len() == n {
            self.frames.push(Frame::default());
        }
        let Frame { header, signer, .. } = &mut self.frames[n];
        let has_shape = shapes.read_header(header, parts.codec, frame, parts.header_end)?;
        *signer = None;
        self.parts.push(parts);
        if header.is_response() || parts.header_end > MAX_HEADER {
            return Ok(());
        }
        let order = if has_shape {
            shapes.order()
        } else {
            if !self.order.as_ref().is_some_and(|o| o.fits(header, frame)) {
                self.order = Order::of(header, frame);
            }
            self.order.as_ref()
        };
        if let Some(order) = order {
            let start = self.texts.len();
            let texts = &mut self.texts;
            if prepare(
                &mut self.frames[n],
                order,
                guard,
                &mut self.signers,
                frame,
                parts.header_end,
                texts,
            )
            .is_none()
            {
                self.texts.truncate(start);
            }
        }
        Ok(())
    }

    /// Forgets the signers whose signatures are not right.
    fn verify(&mut self, data: &[u8]) {
        let frames = &mut self.frames[..self.parts.len()];
        let Some(first) = self.signers.first() else {
            return;
        };
        let nothing = Job {
            key: first.subject.key(),
            head: b"",
            body: b"",
        };
        let (mut jobs, mut n, mut at) = ([nothing; MOST], 0, 0);
        for (frame, parts) in frames.iter().zip(&self.parts) {
            if let Some(signer) = frame.signer {
                jobs[n] = Job {
                    key: self.signers[signer].subject.key(),
                    head: &self.texts[frame.values.clone()],
                    body: &data[at + parts.header_end..at + parts.total],
                };
                n += 1;
            }
            at += parts.total;
        }
        let right = macs(&jobs[..n]);
        let signed = frames.iter_mut().filter(|f| f.signer.is_some());
        for (frame, right) in signed.zip(&right) {
            let is_right = is_signature(right, &self.texts[frame.signature.clone()]);
            if frame.is_strangers || !is_right {
                frame.signer = None;
            }
        }
    }

    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Where the parts of a frame lie.
    pub fn parts(&self, n: usize) -> Parts {
        self.parts[n]
    }

    /// Exchanges `header` for that of a frame, and says who signed it.
    pub fn take(&mut self, n: usize, header: &mut Header) -> Option<&Verified> {
        let frame = &mut self.frames[n];
        std::mem::swap(&mut frame.header, header);
        frame.signer.map(|signer| &self.signers[signer])
    }
}

/// Puts what is signed into `texts`; `room`: the length of the header. None if the frame cannot be verified.
fn prepare(
    frame: &mut Frame,
    order: &Order,
    guard: &mut Guard,
    signers: &mut Vec<Verified>,
    text: &[u8],
    room: usize,
    texts: &mut Vec<u8>,
) -> Option<()> {
    let header = &frame.header;
    let signature = order.signature(header);
    if (signature.end - signature.start) as usize > MAX_SIGNATURE {
        return None;
    }
    let access_key = plain(order.access_key(header), text, texts)?;
    // A signature of nobody takes as long as a wrong one of somebody: time tells of no user.
    let found = guard.find(access_key);
    frame.is_strangers = found.is_none();
    let nobody = Verified::nobody();
    let claimed = found.unwrap_or(&nobody);
    // Nearly always it is who signed the frame before.
    let is_it = |known: &Verified| Arc::ptr_eq(&known.subject, &claimed.subject);
    let signer = match signers.iter().rposition(is_it) {
        Some(signer) => signer,
        None => {
            signers.push(claimed.clone());
            signers.len() - 1
        }
    };
    let start = texts.len();
    signature.unescape(text, texts).ok()?;
    let end = texts.len();
    push_values(order.values(header), text, room, texts)?;
    frame.signature = start..end;
    frame.values = end..texts.len();
    frame.signer = Some(signer);
    Some(())
}

/// Appends the values, which take `room` at most; None if one cannot be unescaped. Most are short: a copy of sixteen bytes, of which
/// the next value takes what is too much, is far cheaper than a copy of the right length.
fn push_values(
    values: impl Iterator<Item = Raw>,
    text: &[u8],
    room: usize,
    texts: &mut Vec<u8>,
) -> Option<()> {
    const SHORT: usize = 16;
    let mut at = texts.len();
    texts.resize(at + room + SHORT, 0);
    for value in values {
        let (start, len) = (value.start as usize, (value.end - value.start) as usize);
        if value.escaped {
            texts.truncate(at);
            value.unescape(text, texts).ok()?;
            at = texts.len();
            texts.resize(at + room + SHORT, 0);
        } else if let Some(chunk) = text[start..].first_chunk::<SHORT>()
            && len <= SHORT
        {
            texts[at..at + SHORT].copy_from_slice(chunk);
            at += len;
        } else {
            texts[at..at + len].copy_from_slice(value.bytes(text));
            at += len;
        }
    }
    texts.truncate(at);
    Some(())
}

/// The bytes of a value; where they have to be unescaped, at the end of `texts`.
fn plain<'a>(value: Raw, text: &'a [u8], texts: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if !value.escaped {
        return Some(value.bytes(text));
    }
    let start = texts.len();
    value.unescape(text, texts).ok()?;
    Some(&texts[start..])
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
