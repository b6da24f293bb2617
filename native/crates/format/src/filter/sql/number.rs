//! Numbers in message properties, read as Java reads them.

/// `Integer.valueOf`. [java.lang.Integer]
#[inline]
pub(super) fn int(text: &[u8]) -> Option<i32> {
    i32::try_from(long(text)?).ok()
}

/// `Long.valueOf`: digits, perhaps behind a sign; no blanks. [java.lang.Long]
#[inline]
pub(super) fn long(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(text);
    if digits.is_empty() {
        return None;
    }
    if digits.len() > 18 {
        return long_of_any(negative, without_zeros(digits));
    }
    let mut n = 0;
    for b in digits {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return long_of_any(negative, digits);
        }
        n = n * 10 + i64::from(digit);
    }
    Some(if negative { -n } else { n })
}

/// Without most of the zeros at the start, of which somebody may send thousands.
fn without_zeros(mut digits: &[u8]) -> &[u8] {
    while let Some((zeros, rest)) = digits.split_first_chunk()
        && *zeros == [b'0'; 16]
    {
        digits = rest;
    }
    digits
}

/// Any number of digits of any script.
#[cold]
fn long_of_any(negative: bool, digits: &[u8]) -> Option<i64> {
    let mut n = 0i64;
    // Mostly all digits are of one script.
    let mut zero = ZEROS[0];
    for c in std::str::from_utf8(digits).ok()?.chars() {
        let unit = u16::try_from(u32::from(c)).ok()?;
        if !(zero..zero + 10).contains(&unit) {
            zero = zero_of(unit)?;
        }
        let digit = i64::from(unit - zero);
        n = n.checked_mul(10)?;
        n = if negative {
            n.checked_sub(digit)?
        } else {
            n.checked_add(digit)?
        };
    }
    Some(n)
}

/// The zeros of all scripts with decimal digits; the other nine follow each. Java examines UTF-16
/// units, so scripts beyond 0xFFFF have none. [Character.digit]
const ZEROS: [u16; 37] = [
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6,
    0x0D66, 0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80,
    0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0,
    0xFF10,
];

/// The zero of the script that a digit is of.
fn zero_of(digit: u16) -> Option<u16> {
    let up_to = ZEROS.partition_point(|&zero| zero <= digit);
    let zero = *ZEROS[..up_to].last()?;
    (digit - zero < 10).then_some(zero)
}

/// `Double.valueOf`: control characters and blanks around it do not count, `f`, `F`, `d` or `D` may
/// stand behind it, hexadecimal is allowed. [java.lang.Double, FloatingDecimal]
pub(super) fn double(text: &[u8]) -> Option<f64> {
    let (negative, text) = sign(trimmed(text));
    let n = match text {
        b"NaN" => f64::NAN,
        b"Infinity" => f64::INFINITY,
        [b'0', b'x' | b'X', rest @ ..] => hexadecimal(rest)?,
        _ => decimal(text)?,
    };
    Some(if negative { -n } else { n })
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [0..=b' ', rest @ ..] | [rest @ .., 0..=b' '] = text {
        text = rest;
    }
    text
}

/// Digits with at most one point, perhaps an exponent, perhaps a suffix.
fn decimal(text: &[u8]) -> Option<f64> {
    let whole = count(text, u8::is_ascii_digit);
    let mut end = whole;
    let mut digits = whole;
    if text.get(end) == Some(&b'.') {
        let fraction = count(&text[end + 1..], u8::is_ascii_digit);
        end += 1 + fraction;
        digits += fraction;
    }
    if digits == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        end = text.len() - behind_exponent(&text[end + 1..])?.1.len();
    }
    if !is_suffix(&text[end..]) {
        return None;
    }
    // It has Rust's form now, which rounds as Java does.
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

/// What follows `0x`: hexadecimal digits with at most one point, a binary exponent, perhaps a
/// suffix.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let whole = count(text, u8::is_ascii_hexdigit);
    let (mut fraction, mut rest) = (&[][..], &text[whole..]);
    if let [b'.', behind @ ..] = rest {
        let len = count(behind, u8::is_ascii_hexdigit);
        (fraction, rest) = behind.split_at(len);
    }
    if whole + fraction.len() == 0 {
        return None;
    }
    let [b'p' | b'P', rest @ ..] = rest else {
        return None;
    };
    let (exponent, rest) = behind_exponent(rest)?;
    if !is_suffix(rest) {
        return None;
    }
    let mut significand = Significand::default();
    text[..whole].iter().for_each(|&b| significand.push(b));
    significand.exponent += exponent;
    fraction.iter().for_each(|&b| significand.push(b));
    significand.exponent -= 4 * fraction.len() as i64;
    Some(significand.value())
}

fn count(text: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|b| is(b)).count()
}

fn is_suffix(text: &[u8]) -> bool {
    matches!(text, [] | [b'f' | b'F' | b'd' | b'D'])
}

/// The exponent that `text` begins with, and what follows it. A huge one is less huge here.
fn behind_exponent(text: &[u8]) -> Option<(i64, &[u8])> {
    let (negative, text) = sign(text);
    let (digits, rest) = text.split_at(count(text, u8::is_ascii_digit));
    if digits.is_empty() {
        return None;
    }
    let n = digits.iter().fold(0i64, |n, b| {
        (n * 10 + i64::from(b - b'0')).min(1_000_000_000)
    });
    Some((if negative { -n } else { n }, rest))
}

/// A binary number, `bits * 2^exponent`.
#[derive(Default)]
struct Significand {
    bits: u64,
    exponent: i64,
    /// Whether a digit other than 0 had no room.
    more: bool,
}

impl Significand {
    /// Appends a hexadecimal digit.
    fn push(&mut self, b: u8) {
        let digit = (b as char).to_digit(16).unwrap_or(0);
        if self.bits >> 60 == 0 {
            self.bits = self.bits << 4 | u64::from(digit);
        } else {
            self.exponent += 4;
            self.more |= digit != 0;
        }
    }

    /// The nearest double; of two as near the even one.
    fn value(&self) -> f64 {
        if self.bits == 0 {
            return 0.0;
        }
        let shift = self.bits.leading_zeros();
        let bits = self.bits << shift;
        // The value is 1.xxx * 2^exponent.
        let exponent = self.exponent - i64::from(shift) + 63;
        if exponent > 1023 {
            return f64::INFINITY;
        }
        // Below 2^-1022 a double has fewer bits, below 2^-1075 none.
        let kept = 53 - (-1022 - exponent).max(0);
        if kept < 0 {
            return 0.0;
        }
        let (mut double, rest) = match kept {
            0 => (0, bits),
            kept => (bits >> (64 - kept), bits << kept),
        };
        let half = 1 << 63;
        if rest > half || rest == half && (self.more || double & 1 == 1) {
            double += 1;
        }
        // A carry out of the fraction counts up the exponent, as it should.
        if exponent >= -1022 {
            double += ((exponent + 1022) as u64) << 52;
        }
        f64::from_bits(double)
    }
}

#[cfg(test)]
#[path = "number_tests.rs"]
mod tests;
