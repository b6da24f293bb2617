//! UNIQ_KEY for messages whose sender set none. [MessageClientIDSetter]

use crate::host::{Host, hex8};
use rustix::rand::GetRandomFlags;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

static COUNTER: AtomicU32 = AtomicU32::new(0);
/// Process id and the constant that was drawn for it.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// A number that other processes with this process id, in containers with the same address, do not
/// have. A fork draws anew, and counts from elsewhere.
fn constant_of(pid: u32) -> u32 {
    let known = PROCESS.load(Ordering::Relaxed);
    if (known >> 32) as u32 == pid {
        return known as u32;
    }
    let drawn = random();
    let fresh = (pid as u64) << 32 | drawn & 0xFFFF_FFFF;
    match PROCESS.compare_exchange(known, fresh, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {
            COUNTER.fetch_add((drawn >> 32) as u32, Ordering::Relaxed);
            fresh as u32
        }
        Err(theirs) => theirs as u32,
    }
}

fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // No source of chance: the moment has to do.
        _ => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| d.as_nanos() as u64),
    }
}

/// Appends 32 (IPv6: 56) hex digits: IP, low half of the process id, a constant of this process, ms
/// since the month began (local time), a counter.
pub fn push_new(out: &mut Vec<u8>, host: &Host, now_ms: i64) {
    let pid = std::process::id();
    let constant = constant_of(pid);
    let ip = &host.bytes()[..host.bytes().len() - 4];
    let in_month = now_ms.wrapping_sub(cached_month_start_ms(now_ms)) as u32;
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    for word in ip.as_chunks::<4>().0 {
        out.extend_from_slice(&hex8(u32::from_be_bytes(*word)));
    }
    out.extend_from_slice(&hex8(pid)[4..]);
    out.extend_from_slice(&hex8(constant));
    out.extend_from_slice(&hex8(in_month));
    out.extend_from_slice(&hex8(count)[4..]);
}

/// Keys in a row, made without reading the clock again; the n-th is always the same.
pub struct KeyRun {
    /// The part before the time.
    prefix: Vec<u8>,
    in_month: u32,
    first: u32,
}

impl KeyRun {
    /// `count`: how many will be asked for.
    pub fn new(host: &Host, now_ms: i64, count: u32) -> Self {
        let mut prefix = Vec::with_capacity(56);
        push_new(&mut prefix, host, now_ms);
        prefix.truncate(prefix.len() - 12);
        KeyRun {
            prefix,
            in_month: now_ms.wrapping_sub(cached_month_start_ms(now_ms)) as u32,
            first: COUNTER.fetch_add(count, Ordering::Relaxed),
        }
    }

    /// Digits of each.
    pub fn key_len(&self) -> usize {
        self.prefix.len() + 12
    }

    /// Appends the n-th. When the counter's 16 bits are used up it is the next millisecond's turn.
    pub fn push(&self, n: usize, out: &mut Vec<u8>) {
        let count = (self.first & 0xFFFF).wrapping_add(n as u32);
        out.extend_from_slice(&self.prefix);
        out.extend_from_slice(&hex8(self.in_month.wrapping_add(count >> 16)));
        out.extend_from_slice(&hex8(count)[4..]);
    }
}

/// Bytes of a key that stand where host, process and constant are.
pub const GIVEN: usize = 10;
/// Hex digits of a key with given bytes: as many as with an address of IPv4.
pub const GIVEN_LEN: usize = 32;

/// A key that is a function of what is given, so that whoever sends the same again has the same keys.
/// Its time is the month's first moment: whoever looks it up from that time on finds what was stored
/// in this month. [MessageClientIDSetter.getNearlyTimeFromID]
pub fn given(bytes: &[u8; GIVEN], n: u16) -> [u8; GIVEN_LEN] {
    let mut key = [b'0'; GIVEN_LEN];
    let words = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .chain(std::iter::once(&[0, 0]));
    for (word, digits) in words.zip(key.as_chunks_mut::<4>().0) {
        digits.copy_from_slice(&hex8(u16::from_be_bytes(*word) as u32)[4..]);
    }
    key[GIVEN_LEN - 4..].copy_from_slice(&hex8(n as u32)[4..]);
    key
}

/// As `month_start_ms`, which asks the C library for the time zone and so is slow. Months begin at
/// a full quarter of an hour everywhere, so that one answer holds for all of a quarter.
fn cached_month_start_ms(now_ms: i64) -> i64 {
    const QUARTER_MS: i64 = 15 * 60 * 1000;
    thread_local! {
        static LAST: Cell<(i64, i64)> = const { Cell::new((i64::MIN, 0)) };
    }
    let quarter = now_ms.div_euclid(QUARTER_MS);
    let (last, start) = LAST.get();
    if quarter == last {
        return start;
    }
    let start = month_start_ms(now_ms);
    LAST.set((quarter, start));
    start
}

fn month_start_ms(now_ms: i64) -> i64 {
    let seconds: libc::time_t = now_ms / 1000;
    // SAFETY: `tm` is plain data for which all-zero is valid; both functions get pointers to live
    // values and localtime_r is the thread-safe form.
    unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut tm).is_null() {
            return 0; // a year that the C library cannot state
        }
        tm.tm_mday = 1;
        tm.tm_hour = 0;
        tm.tm_min = 0;
        tm.tm_sec = 0;
        tm.tm_isdst = -1;
        libc::mktime(&mut tm).wrapping_mul(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_key(host: &Host, now_ms: i64) -> Vec<u8> {
        let mut key = Vec::new();
        push_new(&mut key, host, now_ms);
        key
    }

    #[test]
    fn form() {
        let host = Host::new("192.168.1.10:10911".parse().unwrap());
        let a = new_key(&host, 1_700_000_000_000);
        let b = new_key(&host, 1_700_000_000_000);
        assert!(a != b && a.len() == 32 && a.starts_with(b"C0A8010A"));
        assert_eq!(a[..28], b[..28]);
        let v6 = Host::new("[2001:db8::1]:10911".parse().unwrap());
        assert_eq!(new_key(&v6, 1_700_000_000_000).len(), 56);
        for now in [
            1_700_000_000_000,
            1_700_000_000_001,
            1_709_251_200_000,
            0,
            -1,
        ] {
            assert_eq!(cached_month_start_ms(now), month_start_ms(now));
        }
        assert!(month_start_ms(1_700_000_000_000) <= 1_700_000_000_000);
    }

    #[test]
    fn given_bytes_make_the_key() {
        let bytes = [0xC0, 0xA8, 1, 10, 0xAB, 0xCD, 1, 2, 3, 4];
        assert_eq!(
            given(&bytes, 0x1F),
            *b"C0A8010AABCD0102030400000000001F",
            "the time of digits 20 to 28 is the month's first moment"
        );
        assert_ne!(given(&bytes, 0), given(&bytes, u16::MAX));
    }

    #[test]
    fn a_run_has_keys_of_their_own() {
        let host = Host::new("192.168.1.10:0".parse().unwrap());
        let run = KeyRun::new(&host, 1_700_000_000_000, 200_000);
        let key = |n| {
            let mut out = Vec::new();
            run.push(n, &mut out);
            out
        };
        let all: std::collections::HashSet<_> = (0..200_000).map(key).collect();
        assert_eq!(all.len(), 200_000);
        let one = new_key(&host, 1_700_000_000_000);
        assert!(all.iter().all(|k| k.len() == 32 && k[..20] == one[..20]));
        assert_eq!(run.key_len(), 32);
    }
}
