//! Bodies as they were sent: decompressed, and inner batches taken apart.

use pyrmq_format::candidate::MAX_RECORD;
use pyrmq_format::record::sys_flag;
use pyrmq_format::{get_i16, get_i32};
use std::io::{self, Read};
use std::ops::Range;

/// Largest body that comes out of a compressed one.
const MAX_BODY: usize = MAX_RECORD;
/// Where sysFlag says how a body is compressed. [MessageSysFlag]
const KIND: i32 = 0x700;

/// Replaces `out` by the body that a compressed one holds; says what is wrong with it otherwise.
pub fn inflate(body: &[u8], sys: i32, out: &mut Vec<u8>) -> Result<(), String> {
    out.clear();
    let done = match (sys & KIND) >> 8 {
        // 0: clients that know no other kind.
        0 | 3 => take(flate2::read::ZlibDecoder::new(body), out),
        1 => take(lz4_flex::frame::FrameDecoder::new(body), out),
        2 => zstd::stream::read::Decoder::with_buffer(body).and_then(|d| take(d, out)),
        kind => {
            return Err(format!(
                "the body is compressed in the unknown way {kind} (decompress=false gives it as it is)"
            ));
        }
    };
    match done {
        Ok(()) if out.len() > MAX_BODY => Err(format!("the body has more than {MAX_BODY} bytes")),
        Ok(()) => Ok(()),
        Err(e) => Err(format!("the body cannot be decompressed: {e}")),
    }
}

fn take(from: impl Read, out: &mut Vec<u8>) -> io::Result<()> {
    from.take(MAX_BODY as u64 + 1).read_to_end(out).map(drop)
}

/// Whether the body of a record with this sysFlag has to be unpacked.
pub fn is_compressed(sys: i32) -> bool {
    sys & sys_flag::COMPRESSED != 0
}

/// A message of an inner batch; the ranges are of the batch's body. [MessageDecoder.encodeMessage]
pub struct Child {
    pub flag: i32,
    pub body: Range<usize>,
    pub props: Range<usize>,
}

pub struct Children<'a> {
    batch: &'a [u8],
    /// Where the next message starts.
    pub at: usize,
    /// Whether what follows is no message.
    pub broken: bool,
}

pub fn children(batch: &[u8]) -> Children<'_> {
    Children {
        batch,
        at: 0,
        broken: false,
    }
}

impl Iterator for Children<'_> {
    type Item = Child;

    fn next(&mut self) -> Option<Child> {
        let b = &self.batch[self.at..];
        if b.is_empty() || self.broken {
            return None;
        }
        let child = one(b);
        self.broken = child.is_none();
        let child = child?;
        let shift = |r: Range<usize>| self.at + r.start..self.at + r.end;
        let (body, props) = (shift(child.body), shift(child.props));
        self.at = props.end;
        let flag = child.flag;
        Some(Child { flag, body, props })
    }
}

/// The message that `b` starts with: size, magic, CRC, flag, body, properties.
fn one(b: &[u8]) -> Option<Child> {
    if b.len() < 22 {
        return None;
    }
    let size = usize::try_from(get_i32(b, 0)).ok()?;
    let body_end = usize::try_from(get_i32(b, 16)).ok()?.checked_add(20)?;
    if size > b.len() || body_end + 2 > size {
        return None;
    }
    let props = usize::try_from(get_i16(b, body_end)).ok()?;
    (body_end + 2 + props == size).then(|| Child {
        flag: get_i32(b, 12),
        body: 20..body_end,
        props: body_end + 2..size,
    })
}
