//! A message of two parts as the blocks of SHA-1 that it is hashed in.

use crate::state::BLOCK;

/// `head` and `body` lie apart: a block that has bytes of both, or the padding, is put together in
/// `joined`; the others are read where they lie.
pub(crate) struct Message<'a> {
    head: &'a [u8],
    body: &'a [u8],
    /// Bytes hashed before this message: the block of the key.
    before: usize,
    /// The next byte.
    at: usize,
    joined: [u8; BLOCK],
}

impl<'a> Message<'a> {
    pub fn behind_key(head: &'a [u8], body: &'a [u8]) -> Message<'a> {
        Message {
            head,
            body,
            before: BLOCK,
            at: 0,
            joined: [0; BLOCK],
        }
    }

    pub fn alone(text: &'a [u8]) -> Message<'a> {
        Message {
            before: 0,
            ..Message::behind_key(text, b"")
        }
    }

    #[inline]
    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Blocks that are still to be hashed: behind the last byte there are a bit and eight bytes of length.
    #[inline]
    pub fn left(&self) -> usize {
        (self.len() + 1 + 8).div_ceil(BLOCK) - self.at / BLOCK
    }

    #[inline]
    pub fn skip(&mut self, blocks: usize) {
        self.at += blocks * BLOCK;
    }

    /// The next blocks that lie in one part as they are.
    #[inline]
    pub fn whole(&self) -> &'a [[u8; BLOCK]] {
        let rest = match self.head.get(self.at..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => self
                .body
                .get(self.at - self.head.len()..)
                .unwrap_or_default(),
        };
        rest.as_chunks().0
    }

    /// Whether the next block has bytes of both parts.
    pub fn is_between(&self) -> bool {
        self.at < self.head.len() && self.at + BLOCK <= self.len()
    }

    /// The next block. There is one.
    #[inline]
    pub fn next(&mut self) -> &[u8; BLOCK] {
        let at = self.at;
        self.at += BLOCK;
        if let Some(whole) = self.head.get(at..).and_then(|rest| rest.first_chunk()) {
            return whole;
        }
        if at >= self.head.len()
            && let Some(whole) = self.body.get(at - self.head.len()..)
            && let Some(whole) = whole.first_chunk()
        {
            return whole;
        }
        self.join(at)
    }

    /// The block at `at`: the end of `head`, the start of `body`, the padding.
    fn join(&mut self, at: usize) -> &[u8; BLOCK] {
        let head = self.head.get(at..).unwrap_or_default();
        let body_at = at.saturating_sub(self.head.len());
        let body = self.body.get(body_at..).unwrap_or_default();
        let body = &body[..body.len().min(BLOCK - head.len())];
        self.joined = [0; BLOCK];
        self.joined[..head.len()].copy_from_slice(head);
        let end = head.len() + body.len();
        self.joined[head.len()..end].copy_from_slice(body);
        // Where the bytes end in this block, or ended with the one before.
        if end < BLOCK && at + end == self.len() {
            self.joined[end] = 0x80;
        }
        if self.left() == 0 {
            let bits = 8 * (self.before + self.len()) as u64;
            self.joined[BLOCK - 8..].copy_from_slice(&bits.to_be_bytes());
        }
        &self.joined
    }
}
