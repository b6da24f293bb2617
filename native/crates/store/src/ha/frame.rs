//! The two frames of the HA channel, all numbers big-endian. [DefaultHAConnection, DefaultHAClient]
//!
//! | Direction | Frame |
//! |---|---|
//! | slave to master | i64: where the slave's log ends |
//! | master to slave | i64 physical offset, i32 size, so many bytes of the log; size 0: a heartbeat |

use pyrmq_format::{get_i32, get_i64};

pub const HEADER_LEN: usize = 12;
pub const REPORT_LEN: usize = 8;
/// Bytes of a frame's body, at most: what RocketMQ's slave has room for.
pub const MAX_BODY: usize = (4 << 20) - HEADER_LEN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub offset: i64,
    pub size: i32,
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.offset.to_be_bytes());
        bytes[8..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    pub fn read(bytes: &[u8; HEADER_LEN]) -> Self {
        Header {
            offset: get_i64(bytes, 0),
            size: get_i32(bytes, 8),
        }
    }
}

/// Bytes of a fixed length that arrive in pieces.
pub struct Pieces<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Pieces<N> {
    fn default() -> Self {
        Pieces {
            bytes: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Pieces<N> {
    /// Takes what is missing from the front of `bytes`. The whole once it is there.
    pub fn take(&mut self, bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (piece, rest) = bytes.split_at((N - self.len).min(bytes.len()));
        self.bytes[self.len..self.len + piece.len()].copy_from_slice(piece);
        self.len += piece.len();
        *bytes = rest;
        if self.len < N {
            return None;
        }
        self.len = 0;
        Some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_layout() {
        let header = Header {
            offset: 1024,
            size: 180,
        };
        let bytes = [0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0xb4];
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::read(&bytes), header);
    }

    #[test]
    fn pieces_are_put_together() {
        let mut pieces = Pieces::<4>::default();
        let mut input = &[1u8, 2, 3][..];
        assert_eq!(pieces.take(&mut input), None);
        assert!(input.is_empty());
        let mut input = &[4u8, 5][..];
        assert_eq!(pieces.take(&mut input), Some([1, 2, 3, 4]));
        assert_eq!(input, [5]);
        assert_eq!(pieces.take(&mut input), None);
    }
}
