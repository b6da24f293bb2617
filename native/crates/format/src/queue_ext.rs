//! A unit of a ConsumeQueue's extension file, and its address in a queue entry. [ConsumeQueueExt]
//!
//! i16 size (20 + bitmap), i64 tag code, i64 store time, i16 bitmap length, bitmap. The address is
//! the unit's byte offset moved below every possible tag hash, and stands in the entry's tag code.

use super::{get_i16, get_i64};

/// Bytes of a unit without bitmap.
pub const MIN_UNIT: usize = 20;
pub const MAX_UNIT: usize = i16::MAX as usize;
/// Kept free at the end of every file; the first two say -1 when the next file continues.
pub const END_LEN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<'a> {
    pub tags_code: i64,
    pub store_time: i64,
    pub bitmap: &'a [u8],
}

/// Whether a queue entry's tag code is an address.
#[inline]
pub fn is_address(tags_code: i64) -> bool {
    tags_code < i32::MIN as i64
}

/// The address of the unit at a byte offset.
pub fn address(offset: u64) -> i64 {
    (offset as i64).wrapping_add(i64::MIN)
}

/// The byte offset that an address stands for.
pub fn offset(address: i64) -> u64 {
    address.wrapping_sub(i64::MIN) as u64
}

/// Bytes that a unit with this head says it has; `MIN_UNIT` at least.
#[inline]
pub fn size_of(head: &[u8]) -> usize {
    get_i16(head, 0).max(MIN_UNIT as i16) as usize
}

impl<'a> Unit<'a> {
    /// Bytes of the unit.
    pub fn size(&self) -> usize {
        MIN_UNIT + self.bitmap.len()
    }

    pub fn write(&self, dst: &mut [u8]) {
        dst[..2].copy_from_slice(&(self.size() as i16).to_be_bytes());
        dst[2..10].copy_from_slice(&self.tags_code.to_be_bytes());
        dst[10..18].copy_from_slice(&self.store_time.to_be_bytes());
        dst[18..20].copy_from_slice(&(self.bitmap.len() as i16).to_be_bytes());
        dst[MIN_UNIT..].copy_from_slice(self.bitmap);
    }

    /// None where no whole unit stands.
    pub fn read(b: &'a [u8]) -> Option<Self> {
        if b.len() < MIN_UNIT {
            return None;
        }
        let size = usize::try_from(get_i16(b, 0)).ok()?;
        let bitmap = usize::try_from(get_i16(b, 18)).ok()?;
        if size != MIN_UNIT + bitmap || size > b.len() {
            return None;
        }
        Some(Unit {
            tags_code: get_i64(b, 2),
            store_time: get_i64(b, 10),
            bitmap: &b[MIN_UNIT..size],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_addresses() {
        let unit = Unit {
            tags_code: 2598919,
            store_time: 5,
            bitmap: &[1, 2, 3],
        };
        let mut b = [0; 23];
        unit.write(&mut b);
        assert_eq!(b[..2], [0, 23]);
        assert_eq!(Unit::read(&b), Some(unit));
        assert_eq!(Unit::read(&b[..22]), None);
        assert_eq!(Unit::read(&[0; 40]), None);
        assert_eq!(offset(address(1234)), 1234);
        assert!(is_address(address(0)) && is_address(address(1 << 40)));
        assert!(!is_address(i32::MIN as i64) && !is_address(0) && !is_address(i64::MAX));
    }
}
