//! Host fields of a record: IP (4 or 16 bytes) and port as i32.

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
        let mut text = [0u8; 56];
        let (host, offset) = (self.bytes(), phys.to_be_bytes());
        for (pair, &b) in text.chunks_exact_mut(2).zip(host.iter().chain(&offset)) {
            pair.copy_from_slice(&HEX_PAIRS[b as usize]);
        }
        out.extend_from_slice(&text[..2 * (host.len() + offset.len())]);
    }
}

/// Both digits of every byte.
const HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut table = [[0; 2]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [DIGITS[i >> 4], DIGITS[i & 15]];
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_id_of_the_worked_example() {
        let mut id = Vec::new();
        Host::new("192.168.1.10:10911".parse().unwrap()).push_message_id(1024, &mut id);
        assert_eq!(id, b"C0A8010A00002A9F0000000000000400");
        let v6 = Host::new("[2001:db8::1]:10911".parse().unwrap());
        assert!(v6.is_v6() && v6.bytes().len() == 20);
        let mapped = Host::new("[::ffff:10.0.0.1]:1".parse().unwrap());
        assert_eq!(mapped.bytes(), &[10, 0, 0, 1, 0, 0, 0, 1]);
    }
}
