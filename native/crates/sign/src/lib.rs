//! Signatures of requests: HMAC-SHA1 as RocketMQ's clients make it, in base64. [AclUtils, AclSigner]
//!
//! A key is kept as the two states of SHA-1 that every signature begins with. `mac` makes one signature,
//! `macs` makes many at once: `lanes` hashes sixteen messages side by side where the processor can.

mod base64;
mod job;
mod key;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod many;
mod message;
mod state;

pub use base64::{SIGNATURE, encode, is_signature};
pub use job::{Job, MOST};
pub use key::Key;
pub use many::macs;
pub use state::MAC;
