//! What several targets share: chance that depends on the input only, and Java's reading of a
//! property string written a second time.

/// Numbers that depend on the input only, so that an input alone repeats a run.
pub struct Dice(u64);

impl Dice {
    /// FNV-1a of the input.
    pub fn of(data: &[u8]) -> Self {
        Dice(data.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
            (h ^ b as u64).wrapping_mul(0x100_0000_01b3)
        }))
    }

    /// A number below `limit` (which is not 0).
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64; the state is never 0.
        self.0 |= 1 << 40;
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    /// Splits `data` into pieces of 1 to `most` bytes.
    pub fn pieces<'a>(&mut self, mut data: &'a [u8], most: usize) -> Vec<&'a [u8]> {
        let mut out = Vec::new();
        while !data.is_empty() {
            let (piece, rest) = data.split_at((1 + self.below(most)).min(data.len()));
            out.push(piece);
            data = rest;
        }
        out
    }
}

/// The pairs of a property string by the rules of Java's reader, byte by byte.
/// [MessageDecoder.string2messageProperties]
pub fn naive_pairs(text: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut out = Vec::new();
    for chunk in text.split(|&b| b == 2) {
        let Some(at) = chunk.iter().position(|&b| b == 1) else {
            continue;
        };
        let (name, value) = (&chunk[..at], &chunk[at + 1..]);
        if chunk.len() >= 3 && !name.is_empty() && !value.is_empty() {
            out.push((name, value));
        }
    }
    out
}

/// A frame around a header and a body. `codec` 0 is JSON, 1 is ROCKETMQ.
pub fn frame(codec: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let total = 4 + header.len() + body.len();
    let mut out = (total as u32).to_be_bytes().to_vec();
    out.extend(((codec as u32) << 24 | header.len() as u32).to_be_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(body);
    out
}
