//! UNIQ_KEY for messages whose sender set none. [MessageClientIDSetter]

use crate::format::host::Host;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// 32 (IPv6: 56) hex digits: IP, low half of the process id, a constant of this process, ms since
/// the month began (local time), a counter.
pub fn new_key(host: &Host, now_ms: i64) -> Vec<u8> {
    let pid = std::process::id();
    let ip = &host.bytes()[..host.bytes().len() - 4];
    let mut raw = Vec::with_capacity(28);
    raw.extend_from_slice(ip);
    raw.extend_from_slice(&(pid as u16).to_be_bytes());
    raw.extend_from_slice(&pid.wrapping_mul(0x9E37_79B9).to_be_bytes());
    let in_month = now_ms.wrapping_sub(month_start_ms(now_ms));
    raw.extend_from_slice(&(in_month as u32).to_be_bytes());
    raw.extend_from_slice(&(COUNTER.fetch_add(1, Ordering::Relaxed) as u16).to_be_bytes());
    raw.iter()
        .flat_map(|b| format!("{b:02X}").into_bytes())
        .collect()
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

    #[test]
    fn form() {
        let host = Host::new("192.168.1.10:10911".parse().unwrap());
        let a = new_key(&host, 1_700_000_000_000);
        let b = new_key(&host, 1_700_000_000_000);
        assert!(a != b && a.len() == 32 && a.starts_with(b"C0A8010A"));
        assert!(month_start_ms(1_700_000_000_000) <= 1_700_000_000_000);
    }
}
