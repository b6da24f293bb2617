//! What a message says about itself: its UNIQ_KEY, 32 hex digits as clients set it, holds run, producer,
//! sequence number and the time it was due. So it costs no byte on the way, whatever the body is.
//!
//! | digits | meaning |
//! |---|---|
//! | 0..4 | the boot of the machine: its monotonic clock |
//! | 4..8 | the run |
//! | 8..12 | the producer |
//! | 12..22 | its sequence number, 40 bits |
//! | 22..32 | when it was due: µs of CLOCK_MONOTONIC, 40 bits (12 days, then it begins again) |

use pyrmq_format::java;
use std::hash::{BuildHasher, Hasher, RandomState};

pub const DIGITS: usize = 32;
const MASK: u64 = (1 << 40) - 1;

/// The first eight digits: which boot, which run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub boot: u16,
    pub run: u16,
}

impl Run {
    /// A new run on this machine.
    pub fn new() -> Run {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hash = java::hash(&id) as u32;
        Run {
            // The top bit tells ours from an IPv4 address of loopback or a private net.
            boot: (hash ^ hash >> 16) as u16 | 0x8000,
            run: RandomState::new().build_hasher().finish() as u16,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub run: Run,
    pub producer: u16,
    pub sequence: u64,
    /// µs, its low 40 bits.
    pub due: u64,
}

impl Stamp {
    pub fn new(run: Run, producer: u16, sequence: u64, due_ns: u64) -> Stamp {
        Stamp {
            run,
            producer,
            sequence: sequence & MASK,
            due: (due_ns / 1000) & MASK,
        }
    }

    /// Writes its digits over the first 32 bytes of `place`.
    #[inline]
    pub fn write(&self, place: &mut [u8]) {
        let high = u64::from(self.run.boot) << 48
            | u64::from(self.run.run) << 32
            | u64::from(self.producer) << 16
            | self.sequence >> 24;
        let low = self.sequence << 40 | self.due;
        put_hex(high, &mut place[..16]);
        put_hex(low, &mut place[16..DIGITS]);
    }

    pub fn text(&self) -> [u8; DIGITS] {
        let mut text = [0; DIGITS];
        self.write(&mut text);
        text
    }

    /// `None`: not a key of this form.
    #[inline]
    pub fn read(key: &[u8]) -> Option<Stamp> {
        let key: &[u8; DIGITS] = key.try_into().ok()?;
        let (high, low) = (hex(&key[..16])?, hex(&key[16..])?);
        Some(Stamp {
            run: Run {
                boot: (high >> 48) as u16,
                run: (high >> 32) as u16,
            },
            producer: (high >> 16) as u16,
            sequence: (high & 0xFFFF) << 24 | low >> 40,
            due: low & MASK,
        })
    }

    /// Nanoseconds since it was due; `None`: it comes from the future, so from another clock.
    #[inline]
    pub fn age(&self, now_ns: u64) -> Option<u64> {
        let age = (now_ns / 1000).wrapping_sub(self.due) & MASK;
        (age < MASK / 2).then_some(age * 1000)
    }
}

/// Writes hex digits over all of `out`.
#[inline]
pub fn put_hex(value: u64, out: &mut [u8]) {
    let mut value = value;
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(value & 15) as usize];
        value >>= 4;
    }
}

#[inline]
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let run = Run::new();
        assert!(run.boot >= 0x8000);
        for (producer, sequence, due) in [
            (0, 0, 0),
            (1, 2, 3_000),
            (u16::MAX, MASK, MASK * 1000),
            (77, 0x12_3456_789A, 0xAB_CDEF_0123 * 1000),
        ] {
            let stamp = Stamp::new(run, producer, sequence, due);
            let read = Stamp::read(&stamp.text()).unwrap();
            assert_eq!(read, stamp);
            assert_eq!((read.producer, read.sequence), (producer, sequence));
        }
    }

    #[test]
    fn other_keys_are_none() {
        for key in [
            &b""[..],
            b"7F0000010000000118B4AAC20000000",
            b"7f0000010000000118b4aac200000000",
            b"AC110001000118B4AAC20000000000000",
        ] {
            assert_eq!(Stamp::read(key), None);
        }
    }

    #[test]
    fn the_age_of_a_clock_that_began_again() {
        let run = Run::new();
        let stamp = Stamp::new(run, 0, 0, (MASK - 4) * 1000);
        assert_eq!(stamp.age((MASK + 6) * 1000), Some(10_000));
        let future = Stamp::new(run, 0, 0, 5_000_000);
        assert_eq!(future.age(4_000_000), None);
    }
}
