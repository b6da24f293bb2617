//! What is signed.

use crate::key::Key;

/// A message to be signed: `head` followed by `body`.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub key: &'a Key,
    pub head: &'a [u8],
    pub body: &'a [u8],
}

/// Jobs of one call at most.
pub const MOST: usize = 16;
