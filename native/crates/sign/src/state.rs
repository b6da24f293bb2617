//! The state of SHA-1.

/// Bytes of a signature before it is written in base64.
pub const MAC: usize = 20;
pub(crate) const BLOCK: usize = 64;

pub(crate) type State = [u32; 5];

pub(crate) fn bytes(state: &State) -> [u8; MAC] {
    let mut out = [0; MAC];
    for n in 0..state.len() {
        out[4 * n..4 * n + 4].copy_from_slice(&state[n].to_be_bytes());
    }
    out
}
