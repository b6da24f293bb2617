//! Which bits of a queue entry's extension stand for a subscription. [BloomFilter, CommitLogDispatcherCalcBitMap]
//!
//! As a message is stored, the expressions of its topic are evaluated, and of each that is true some bits are
//! set. A bit that is not set says that the expression is not true: the message need not be read for it. Set
//! bits say nothing, as other expressions set them too.

/// How many bits there are, and how many of them stand for one subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub bits: u32,
    pub hashes: u32,
}

impl Shape {
    /// For `maxErrorRateOfBloomFilter` (percent, 1 to 99) and `expectConsumerNumUseFilter` (1 or more).
    pub fn new(error_percent: u8, consumers: u32) -> Self {
        let error = f64::from(error_percent.clamp(1, 99)) / 100.0;
        let hashes = (error.ln() / 0.5f64.ln()).ceil();
        let log2 = |x: f64| x.ln() / 2f64.ln();
        let bits =
            (f64::from(consumers.max(1)) * log2(1.0 / error) * log2(std::f64::consts::E)).ceil();
        Shape {
            bits: (bits as u32).div_ceil(8).saturating_mul(8),
            hashes: hashes as u32,
        }
    }

    /// The bits of one subscription.
    pub fn positions(&self, group: &[u8], topic: &[u8]) -> Vec<u32> {
        let hash = murmur3_low(&[group, b"#", topic].concat());
        let (first, step) = (hash as u32 as i32, (hash >> 32) as i32);
        let bits = i64::from(self.bits);
        let place = |i: u32| {
            let mixed = first.wrapping_add((i as i32).wrapping_mul(step));
            (i64::from(if mixed < 0 { !mixed } else { mixed }) % bits) as u32
        };
        (1..=self.hashes).map(place).collect()
    }
}

/// Sets bits; those behind the end are left out.
pub fn set(bitmap: &mut [u8], positions: &[u32]) {
    for p in positions {
        if let Some(byte) = bitmap.get_mut(*p as usize / 8) {
            *byte |= 1 << (p % 8);
        }
    }
}

/// Whether all of these bits are set; those behind the end are not.
#[inline]
pub fn has_all(bitmap: &[u8], positions: &[u32]) -> bool {
    let has = |p: &u32| {
        bitmap
            .get(*p as usize / 8)
            .is_some_and(|byte| byte >> (p % 8) & 1 != 0)
    };
    positions.iter().all(has)
}

/// The low 64 bits of MurmurHash3 (x64, 128 bits) with seed 0, a public-domain function of Austin Appleby's.
fn murmur3_low(data: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    let (mut h1, mut h2) = (0u64, 0u64);
    let blocks = data.chunks_exact(16);
    let tail = blocks.remainder();
    for block in blocks {
        h1 ^= mix1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    // A word of no bytes is 0, which changes nothing.
    h2 ^= mix2(word(high));
    h1 ^= mix1(word(low));
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1.wrapping_add(h2)
}

fn finish(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let of = |percent, consumers| {
            let shape = Shape::new(percent, consumers);
            (shape.bits, shape.hashes)
        };
        assert_eq!(of(20, 32), (112, 3));
        assert_eq!(of(10, 20), (96, 4));
        assert_eq!(of(1, 300), (2880, 7));
    }

    #[test]
    fn bits_of_subscriptions() {
        let shape = Shape::new(20, 32);
        assert_eq!(shape.positions(b"GroupA", b"TopicA"), [29, 107, 11]);
        assert_eq!(shape.positions(b"CID_abc_efg", b"TopicTest"), [22, 53, 14]);
        assert_eq!(shape.positions(b"g1", b"T1"), [57, 20, 98]);
    }

    #[test]
    fn setting_and_asking() {
        let mut bitmap = [0; 14];
        set(&mut bitmap, &[29, 107, 11, 5000]);
        assert!(has_all(&bitmap, &[29, 107, 11]) && has_all(&bitmap, &[]));
        assert!(!has_all(&bitmap, &[29, 107, 12]) && !has_all(&bitmap, &[5000]));
        assert_eq!((bitmap[1], bitmap[3], bitmap[13]), (1 << 3, 1 << 5, 1 << 3));
    }
}
