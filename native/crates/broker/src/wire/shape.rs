//! JSON headers that are written like one that was read before, read in one pass.
//!
//! A client writes all its requests of one kind alike: the same members, in the same order, with the same
//! values outside of `extFields` but for `opaque`. A `Shape` is the text of such a header without its holes:
//! the strings of `extFields` and `remark`, and the number of `opaque`. A header that has the same text
//! between its holes is read by `Header::read` through the same steps, so it says the same as the first one
//! but for the holes. Whatever does not fit is left to `Header::read`, which stays the one definition of what
//! a header means.

use super::WireError;
use super::frame::Codec;
use super::header::Header;
use super::order::Order;
use pyrmq_format::json::{JsonResult, Raw, Scanner, end_of_plain};
use pyrmq_format::parse_i64;

/// Shapes that are remembered: some for each kind of client.
const MAX_SHAPES: usize = 8;
/// A header with more holes, or more text between them, is read as any other.
const MAX_HOLES: usize = 32;
const MAX_TEXT: usize = 2048;
/// Where a header begins in its frame.
const START: usize = 8;

/// The shapes of the headers that were read last.
#[derive(Default)]
pub struct Shapes {
    shapes: Vec<Shape>,
    /// The one that fitted last, and the one that is looked at first when one has to go.
    last: usize,
    hand: usize,
    /// How many headers in a row fitted none.
    misses: u32,
}

impl Shapes {
    /// `Header::read`, sooner for headers that are written like earlier ones. Whether it was one: then
    /// `order` is its order.
    pub fn read_header(
        &mut self,
        header: &mut Header,
        codec: Codec,
        frame: &[u8],
        header_end: usize,
    ) -> Result<bool, WireError> {
        if codec != Codec::Json {
            header.read(codec, frame, header_end)?;
            return Ok(false);
        }
        let text = &frame[..header_end];
        if self.read(text, header) {
            return Ok(true);
        }
        header.read(codec, frame, header_end)?;
        self.learn(text, header);
        Ok(false)
    }

    /// The order in which the fields of headers of the shape that fitted last are signed.
    pub fn order(&self) -> Option<&Order> {
        self.shapes.get(self.last)?.order.as_ref()
    }

    /// Reads the header at `8..` of `text` if it has one of the shapes. False: `header` holds nothing
    /// of use.
    #[inline]
    fn read(&mut self, text: &[u8], header: &mut Header) -> bool {
        if let Some(shape) = self.shapes.get_mut(self.last)
            && shape.read(text, header)
        {
            shape.used = true;
            self.misses = 0;
            return true;
        }
        self.read_others(text, header)
    }

    fn read_others(&mut self, text: &[u8], header: &mut Header) -> bool {
        let fits = self.shapes.iter().position(|s| s.read(text, header));
        if let Some(at) = fits {
            self.shapes[at].used = true;
            self.last = at;
            self.misses = 0;
        }
        fits.is_some()
    }

    /// Takes over the shape of a header that fitted none and was read. The longer none fits, the rarer:
    /// a peer that never writes two headers alike costs nearly nothing. Its shape takes the place of one
    /// that no header fitted lately, so that such a peer does not push out those of others.
    fn learn(&mut self, text: &[u8], header: &Header) {
        self.misses = self.misses.saturating_add(1);
        if !self.misses.is_power_of_two() {
            return;
        }
        let Some(shape) = Shape::of(text, header) else {
            return;
        };
        if self.shapes.len() < MAX_SHAPES {
            self.shapes.push(shape);
            return;
        }
        // One round at most: each that is passed has lost its mark.
        while std::mem::take(&mut self.shapes[self.hand].used) {
            self.hand = (self.hand + 1) % MAX_SHAPES;
        }
        self.shapes[self.hand] = shape;
        self.hand = (self.hand + 1) % MAX_SHAPES;
    }
}

/// What stands in a hole.
#[derive(Clone, Copy)]
enum Hole {
    /// The value of an ext field: where its name lies in the text before it.
    Field {
        name: Raw,
    },
    Remark,
    Opaque,
    /// No hole: the header ends here.
    End,
}

/// Text, and the hole behind it.
struct Piece {
    /// Its first bytes, and those of the eight that count.
    first: u64,
    mask: u64,
    /// All of it.
    text: Box<[u8]>,
    hole: Hole,
}

struct Shape {
    pieces: Box<[Piece]>,
    /// How many of its holes are ext fields.
    fields: usize,
    /// What all headers of this shape say; without remark and ext fields.
    common: Header,
    /// In which its fields are signed.
    order: Option<Order>,
    /// A header fitted since somebody looked for one that may go.
    used: bool,
}

impl Piece {
    fn new(text: &[u8], hole: Hole) -> Piece {
        let (mut first, mut mask) = ([0; 8], [0; 8]);
        for (at, &byte) in text.iter().take(8).enumerate() {
            (first[at], mask[at]) = (byte, 0xff);
        }
        Piece {
            first: u64::from_le_bytes(first),
            mask: u64::from_le_bytes(mask),
            text: text.into(),
            hole,
        }
    }

    /// Whether `text` goes on with this one at `at`.
    #[inline]
    fn stands_at(&self, text: &[u8], at: usize) -> bool {
        let len = self.text.len();
        let Some(next) = text.get(at..) else {
            return false;
        };
        match (next.first_chunk(), next.get(..len)) {
            (Some(first), Some(next)) => {
                (u64::from_le_bytes(*first) ^ self.first) & self.mask == 0
                    && (len <= 8 || ends_alike(next, &self.text))
            }
            (None, Some(next)) => next == &*self.text,
            (_, None) => false,
        }
    }
}

/// Whether two texts of one length, more than eight bytes, are the same behind the first eight.
#[inline]
fn ends_alike(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        ..=16 => a.last_chunk::<8>() == b.last_chunk::<8>(),
        17..=24 => {
            a[8..].first_chunk::<8>() == b[8..].first_chunk::<8>()
                && a.last_chunk::<8>() == b.last_chunk::<8>()
        }
        _ => a[8..] == b[8..],
    }
}

impl Shape {
    /// The shape of a header that `Header::read` has read as `header`. None if it is an unusual one.
    fn of(text: &[u8], header: &Header) -> Option<Shape> {
        let holes = holes(&text[START..]).ok()??;
        if holes.len() > MAX_HOLES || text.len() - START > MAX_TEXT + lengths(&holes) {
            return None;
        }
        let mut at = START;
        let mut pieces = Vec::with_capacity(holes.len() + 1);
        for (place, hole) in holes {
            let (start, end) = (START + place.start as usize, START + place.end as usize);
            let hole = match hole {
                Hole::Field { name } => Hole::Field {
                    name: Raw {
                        start: START as u32 + name.start - at as u32,
                        end: START as u32 + name.end - at as u32,
                        ..name
                    },
                },
                other => other,
            };
            pieces.push(Piece::new(&text[at..start], hole));
            at = end;
        }
        pieces.push(Piece::new(&text[at..], Hole::End));
        let is_field = |piece: &&Piece| matches!(piece.hole, Hole::Field { .. });
        let shape = Shape {
            fields: pieces.iter().filter(is_field).count(),
            pieces: pieces.into(),
            common: Header {
                remark: None,
                ext: Vec::new(),
                ..*header
            },
            order: Order::of(header, text),
            used: false,
        };
        // It must read what it was made of as it was read.
        let mut again = Header::default();
        (shape.read(text, &mut again) && again == *header).then_some(shape)
    }

    #[inline]
    fn read(&self, text: &[u8], header: &mut Header) -> bool {
        let Header { remark, ext, .. } = header;
        let (mut opaque, mut found) = (self.common.opaque, None);
        if ext.len() != self.fields {
            ext.clear();
            ext.resize(self.fields, Default::default());
        }
        let mut fields = ext.iter_mut();
        let mut at = START;
        for piece in &self.pieces {
            if !piece.stands_at(text, at) {
                return false;
            }
            let start = at + piece.text.len();
            match piece.hole {
                Hole::Field { name } => {
                    let Some(value) = string(text, start) else {
                        return false;
                    };
                    let name = Raw {
                        start: at as u32 + name.start,
                        end: at as u32 + name.end,
                        ..name
                    };
                    let Some(field) = fields.next() else {
                        return false; // never: there is one for each
                    };
                    *field = (name, value);
                    at = value.end as usize;
                }
                Hole::Remark => {
                    found = string(text, start);
                    let Some(value) = found else { return false };
                    at = value.end as usize;
                }
                Hole::Opaque => {
                    let Some((number, end)) = number(text, start) else {
                        return false;
                    };
                    (opaque, at) = (number, end);
                }
                Hole::End => at = start,
            }
        }
        if at != text.len() {
            return false;
        }
        *remark = found;
        header.opaque = opaque;
        header.code = self.common.code;
        header.language = self.common.language;
        header.version = self.common.version;
        header.flag = self.common.flag;
        true
    }
}

/// The string that begins at `start`, behind its quote. None where its end is not plain to see.
#[inline]
fn string(text: &[u8], start: usize) -> Option<Raw> {
    let mut end = end_of_plain(text, start, b'"');
    let escaped = text.get(end) == Some(&b'\\');
    if escaped {
        // Quotes only. One behind a backslash may be a part of the text.
        end = end_of_plain_text(text, end + 1)?;
    }
    (end < text.len()).then_some(Raw {
        start: start as u32,
        end: end as u32,
        escaped,
        quoted: true,
    })
}

/// The next quote from `at` on, if no backslash stands before it.
fn end_of_plain_text(text: &[u8], at: usize) -> Option<usize> {
    let end = pyrmq_format::json::next(text, at, b'"');
    (text.get(end - 1) != Some(&b'\\')).then_some(end)
}

/// The number of decimal digits at `start`, and where it ends. The text behind it is the shape's.
#[inline]
fn number(text: &[u8], start: usize) -> Option<(i32, usize)> {
    let digits = text.get(start..)?;
    let sign = (digits.first() == Some(&b'-')) as usize;
    let len = digits[sign..]
        .iter()
        .take(11)
        .take_while(|b| b.is_ascii_digit())
        .count();
    let end = sign + len;
    let number = parse_i64(&digits[..end])?;
    Some((i32::try_from(number).ok()?, start + end))
}

/// The holes of a header in their order. None if it has what no client writes.
fn holes(text: &[u8]) -> JsonResult<Option<Vec<(Raw, Hole)>>> {
    let mut found: Vec<(Raw, Hole)> = Vec::new();
    let mut usual = true;
    let (mut opaques, mut remarks) = (0, 0);
    let mut s = Scanner::new(text);
    // The closing quote is the one that `string` looks for.
    let is_plain = |value: Raw| value.quoted && text[value.end as usize] == b'"';
    // Of those that are too many one is enough to say so.
    let mut push = |value, hole| {
        if found.len() <= MAX_HOLES {
            found.push((value, hole));
        }
    };
    s.object(|s, key| match key.bytes(text) {
        b"extFields" if s.peek() == Some(b'{') => s.object(|s, name| {
            if matches!(s.peek(), Some(b'{' | b'[')) {
                return s.skip(2);
            }
            let value = s.scalar()?;
            if !value.is_null(text) {
                usual &= is_plain(value);
                push(value, Hole::Field { name });
            }
            Ok(())
        }),
        b"opaque" => {
            let value = s.scalar()?;
            opaques += 1;
            usual &= !value.quoted && !value.is_null(text);
            push(value, Hole::Opaque);
            Ok(())
        }
        b"remark" => {
            let value = s.scalar()?;
            remarks += 1;
            if !value.is_null(text) {
                usual &= is_plain(value);
                push(value, Hole::Remark);
            }
            Ok(())
        }
        _ => s.skip(1),
    })?;
    Ok((usual && opaques == 1 && remarks <= 1).then_some(found))
}

fn lengths(holes: &[(Raw, Hole)]) -> usize {
    holes.iter().map(|(r, _)| (r.end - r.start) as usize).sum()
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "shape_near_tests.rs"]
mod near_tests;
