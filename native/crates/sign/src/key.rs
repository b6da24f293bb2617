//! A secret key, ready to sign with.

use crate::message::Message;
use crate::state::{BLOCK, MAC, State, bytes};
use sha1::block_api::compress;
use std::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Where SHA-1 begins. [FIPS 180-4 section 5.3.1]
const START: State = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];

/// SHA-1 behind the first block of the inner and of the outer hash. Whoever has these can sign, but
/// does not know the secret.
pub struct Key {
    pub(crate) inner: State,
    pub(crate) outer: State,
}

impl Key {
    pub fn new(secret: &[u8]) -> Key {
        let mut block = [0; BLOCK];
        match block.get_mut(..secret.len()) {
            Some(start) => start.copy_from_slice(secret),
            None => block[..MAC].copy_from_slice(&bytes(&hash(START, Message::alone(secret)))),
        }
        let behind = |pad: u8| {
            let mut padded = block.map(|b| b ^ pad);
            let mut state = START;
            compress(&mut state, &[padded]);
            padded.zeroize();
            state
        };
        let key = Key {
            inner: behind(0x36),
            outer: behind(0x5c),
        };
        block.zeroize();
        key
    }

    /// The signature of `head` followed by `body`.
    pub fn mac(&self, head: &[u8], body: &[u8]) -> [u8; MAC] {
        self.finish(&hash(self.inner, Message::behind_key(head, body)))
    }

    /// Goes on with a message whose first blocks are in `state`.
    pub(crate) fn mac_from(&self, state: State, message: Message<'_>) -> [u8; MAC] {
        self.finish(&hash(state, message))
    }

    fn finish(&self, inner: &State) -> [u8; MAC] {
        bytes(&hash(self.outer, Message::behind_key(&bytes(inner), b"")))
    }

    /// Whether two keys sign alike.
    pub fn is_same(&self, other: &Key) -> bool {
        let both = |key: &Key| [bytes(&key.inner), bytes(&key.outer)].concat();
        let (mut a, mut b) = (both(self), both(other));
        let same = a.ct_eq(&b).into();
        a.zeroize();
        b.zeroize();
        same
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

fn hash(mut state: State, mut message: Message<'_>) -> State {
    // The head's blocks, the one that both parts share, and the body's.
    let take_whole = |message: &mut Message<'_>, state: &mut State| {
        let whole = message.whole();
        compress(state, whole);
        message.skip(whole.len());
    };
    take_whole(&mut message, &mut state);
    if message.is_between() {
        compress(&mut state, &[*message.next()]);
    }
    take_whole(&mut message, &mut state);
    while message.left() > 0 {
        compress(&mut state, &[*message.next()]);
    }
    state
}
