//! ConsumeQueue entry: i64 physical offset, i32 record size, i64 tag code. [ConsumeQueue]

use super::{get_i32, get_i64};

pub const SIZE: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqEntry {
    pub phys: i64,
    pub size: i32,
    pub tags_code: i64,
}

impl CqEntry {
    #[inline]
    pub fn read(b: &[u8]) -> Self {
        CqEntry {
            phys: get_i64(b, 0),
            size: get_i32(b, 8),
            tags_code: get_i64(b, 12),
        }
    }

    #[inline]
    pub fn write(&self, dst: &mut [u8]) {
        dst[..8].copy_from_slice(&self.phys.to_be_bytes());
        dst[8..12].copy_from_slice(&self.size.to_be_bytes());
        dst[12..20].copy_from_slice(&self.tags_code.to_be_bytes());
    }

    /// The test that recovery applies: an all-zero slot and garbage are not entries.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.phys >= 0 && self.size > 0
    }

    #[inline]
    pub fn end(&self) -> i64 {
        self.phys.saturating_add(self.size as i64)
    }

    /// A slot of the first file of a queue that starts at a later offset (0, 0x7FFFFFFF, 0).
    pub const PRE_BLANK: CqEntry = CqEntry {
        phys: 0,
        size: i32::MAX,
        tags_code: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples() {
        let mut b = [0u8; SIZE];
        let e = CqEntry {
            phys: 1024,
            size: 180,
            tags_code: -1031784143,
        };
        e.write(&mut b);
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(hex, "0000000000000400000000b4ffffffffc2803931");
        assert_eq!(CqEntry::read(&b), e);
        assert!(!CqEntry::read(&[0; 20]).is_valid());
    }
}
