//! Host fields of a record: IP (4 or 16 bytes) and port as i32.

use super::{get_i32, push_int};
use std::net::{IpAddr, SocketAddr};

/// An address in its stored form; `bytes()` is what goes into the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    raw: [u8; 20],
    v6: bool,
}

impl Host {
    pub fn new(addr: SocketAddr) -> Self {
        let mut raw = [0u8; 20];
        let ip = match addr.ip() {
            IpAddr::V6(ip) => ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4),
            v4 => v4,
        };
        let port = (addr.port() as i32).to_be_bytes();
        match ip {
            IpAddr::V4(ip) => {
                raw[..4].copy_from_slice(&ip.octets());
                raw[4..8].copy_from_slice(&port);
                Host { raw, v6: false }
            }
            IpAddr::V6(ip) => {
                raw[..16].copy_from_slice(&ip.octets());
                raw[16..20].copy_from_slice(&port);
                Host { raw, v6: true }
            }
        }
    }

    /// The host field that `bytes` begin with.
    pub fn read(bytes: &[u8], v6: bool) -> Self {
        let mut raw = [0u8; 20];
        let len = if v6 { 20 } else { 8 };
        raw[..len].copy_from_slice(&bytes[..len]);
        Host { raw, v6 }
    }

    /// Appends `ip:port`, an IPv6 address in brackets. The stored port has 32 bits, of which an
    /// address has 16.
    pub fn push_text(&self, out: &mut Vec<u8>) {
        if self.v6 {
            let [ip @ .., _, _, _, _] = self.raw;
            let addr = SocketAddr::new(IpAddr::from(ip), get_i32(&self.raw, 16) as u16);
            out.extend_from_slice(addr.to_string().as_bytes());
            return;
        }
        for (i, part) in self.raw[..4].iter().enumerate() {
            if i > 0 {
                out.push(b'.');
            }
            push_int(out, *part as i64);
        }
        out.push(b':');
        push_int(out, get_i32(&self.raw, 4) as u16 as i64);
    }

    #[inline]
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if self.v6 { &self.raw } else { &self.raw[..8] }
    }

    /// offsetMsgId: upper-case hex of the host and the physical offset (32 or 56 characters).
    pub fn push_message_id(&self, phys: u64, out: &mut Vec<u8>) {
        let [high, low] = [hex8((phys >> 32) as u32), hex8(phys as u32)];
        if self.v6 {
            for word in self.raw.as_chunks::<4>().0 {
                out.extend_from_slice(&hex8(u32::from_be_bytes(*word)));
            }
            out.extend_from_slice(&high);
            out.extend_from_slice(&low);
        } else {
            let [ip, port, ..] = self.raw.as_chunks::<4>().0 else {
                unreachable!("20 bytes are five words")
            };
            let [ip, port] = [ip, port].map(|w| hex8(u32::from_be_bytes(*w)));
            let mut text = [0; 32]; // one append of a known length
            text[..8].copy_from_slice(&ip);
            text[8..16].copy_from_slice(&port);
            text[16..24].copy_from_slice(&high);
            text[24..].copy_from_slice(&low);
            out.extend_from_slice(&text);
        }
    }
}

/// The eight upper-case hex digits of `n`, all at once: each of the eight bytes gets one nibble,
/// then what makes it a digit.
#[inline]
pub fn hex8(n: u32) -> [u8; 8] {
    let mut x = n as u64;
    x = (x | x << 16) & 0x0000_FFFF_0000_FFFF;
    x = (x | x << 8) & 0x00FF_00FF_00FF_00FF;
    x = (x | x << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101; // 10 to 15
    (x + 0x3030_3030_3030_3030 + letters * (b'A' - b'9' - 1) as u64).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_at_every_place() {
        for n in (0..8).flat_map(|place| (0..16u32).map(move |digit| digit << (4 * place))) {
            for n in [n, !n, n ^ 0x1234_5678] {
                assert_eq!(hex8(n).as_slice(), format!("{n:08X}").as_bytes());
            }
        }
    }

    #[test]
    fn text_of_both_kinds() {
        let text = |address: &str| {
            let mut out = Vec::new();
            Host::new(address.parse().unwrap()).push_text(&mut out);
            String::from_utf8(out).unwrap()
        };
        for address in ["192.168.1.10:10911", "0.0.0.0:0", "[2001:db8::1]:65535"] {
            assert_eq!(text(address), address);
        }
    }

    #[test]
    fn message_id_of_the_worked_example() {
        let mut id = Vec::new();
        Host::new("192.168.1.10:10911".parse().unwrap()).push_message_id(1024, &mut id);
        assert_eq!(id, b"C0A8010A00002A9F0000000000000400");
        let v6 = Host::new("[2001:db8::1]:10911".parse().unwrap());
        assert!(v6.is_v6() && v6.bytes().len() == 20);
        let mut id = Vec::new();
        v6.push_message_id(0xFEDC_BA98_7654_3210, &mut id);
        assert_eq!(
            id,
            b"20010DB800000000000000000000000100002A9FFEDCBA9876543210"
        );
        let mapped = Host::new("[::ffff:10.0.0.1]:1".parse().unwrap());
        assert_eq!(mapped.bytes(), &[10, 0, 0, 1, 0, 0, 0, 1]);
    }
}
