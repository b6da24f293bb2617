//! Texts and numbers of JSON as values of types that JSON does not have.

/// Days since 1970.
pub fn date(text: &[u8]) -> Option<i32> {
    let days = speedate::Date::parse_bytes_rfc3339(text).ok()?.timestamp() / 86_400;
    i32::try_from(days).ok()
}

/// Microseconds since 1970; without a zone it is UTC.
pub fn timestamp(text: &[u8]) -> Option<i64> {
    let moment = match speedate::DateTime::parse_bytes_rfc3339(text) {
        Ok(moment) => moment,
        Err(_) => return Some(i64::from(date(text)?) * 86_400_000_000),
    };
    let seconds = moment.timestamp_tz();
    seconds
        .checked_mul(1_000_000)?
        .checked_add(i64::from(moment.time.microsecond))
}

/// A moment that says no zone, as if it were in UTC.
pub fn local(text: &[u8]) -> Option<i64> {
    let zoned = speedate::DateTime::parse_bytes_rfc3339(text).ok();
    match zoned.is_some_and(|moment| moment.time.tz_offset.is_some()) {
        true => None,
        false => timestamp(text),
    }
}

/// The bytes of a text in Base64, with its padding.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    pyrmq_format::base64::decode(text, &mut out)?;
    Some(out)
}

/// A number as so many digits; None if it has more in front of the point. If it has more behind it,
/// it is rounded half up, or with `exact` None.
pub fn decimal(text: &[u8], digits: u8, scale: u8, exact: bool) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (front, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    // Digits of the number times ten to the power of `power`.
    let power = i64::from(exponent) - behind.len() as i64 + i64::from(scale);
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if front.is_empty() || !is_number(front) || !is_number(behind) {
        return None;
    }
    let all: Vec<u8> = front
        .bytes()
        .chain(behind.bytes())
        .map(|b| b - b'0')
        .collect();
    let significant = all.iter().position(|&d| d != 0).unwrap_or(all.len());
    let all = &all[significant..];
    let kept = all.len() as i64 + power.min(0);
    if all.is_empty() {
        return Some(0);
    }
    if exact && all[kept.max(0) as usize..].iter().any(|&digit| digit != 0) {
        return None;
    }
    if kept < 0 {
        return Some(0);
    }
    if kept + power.max(0) > i64::from(digits) {
        return None;
    }
    let mut number: i128 = 0;
    for &digit in &all[..kept as usize] {
        number = number * 10 + i128::from(digit);
    }
    if all.get(kept as usize).is_some_and(|&digit| digit >= 5) {
        number += 1;
    }
    number *= 10i128.checked_pow(u32::try_from(power.max(0)).ok()?)?;
    (number < 10i128.checked_pow(u32::from(digits))?).then_some(sign * number)
}
