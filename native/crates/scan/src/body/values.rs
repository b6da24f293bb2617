//! Texts as dates, times, decimals and bytes, as Spark's casts read them.

const DAY: i64 = 86_400_000_000;
/// Most digits of a year.
const YEAR_DIGITS: usize = 6;

/// Days since 1970 of `yyyy-mm-dd`; month and day may be missing, and a time may follow.
pub fn date(text: &str) -> Option<i32> {
    let (days, rest) = day(text.trim())?;
    let follows = rest.is_empty() || rest.starts_with(['T', ' ']);
    follows.then(|| i32::try_from(days).ok()).flatten()
}

/// Microseconds since 1970. Without a zone it is UTC; `zoned` false: it may have none.
pub fn time(text: &str, zoned: bool) -> Option<i64> {
    let (days, rest) = day(text.trim())?;
    if rest.is_empty() {
        return days.checked_mul(DAY);
    }
    let rest = rest.strip_prefix(['T', ' '])?;
    let at = rest
        .find(['Z', '+', '-', 'U', 'G', ' '])
        .unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(at);
    let zone = zone.trim();
    if !zoned && !zone.is_empty() {
        return None;
    }
    let of_day = of_day(clock)?;
    days.checked_mul(DAY)?.checked_add(of_day - offset(zone)?)
}

/// Days since 1970, and what follows on the date.
fn day(text: &str) -> Option<(i64, &str)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (year, rest) = digits(text, 4, YEAR_DIGITS)?;
    let year = if negative { -year } else { year };
    let Some(more) = rest.strip_prefix('-') else {
        return Some((days_of(year, 1, 1)?, rest)).filter(|_| rest.is_empty());
    };
    let (month, rest) = digits(more, 1, 2)?;
    let Some(more) = rest.strip_prefix('-') else {
        return Some((days_of(year, month, 1)?, rest)).filter(|_| rest.is_empty());
    };
    let (day, rest) = digits(more, 1, 2)?;
    Some((days_of(year, month, day)?, rest))
}

/// A number of `least` to `most` digits, and what follows.
fn digits(text: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    if count < least || count > most {
        return None;
    }
    let (number, rest) = text.split_at(count);
    Some((number.parse().ok()?, rest))
}

fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years that begin in March end with the day that not all of them have.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Microseconds of `h:m[:s[.f]]`.
fn of_day(text: &str) -> Option<i64> {
    let (hour, rest) = digits(text, 1, 2)?;
    let (minute, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 1, 2)?,
        None => (0, rest),
    };
    let (second, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 1, 2)?,
        None => (0, rest),
    };
    let micros = match rest.strip_prefix('.') {
        None if rest.is_empty() => 0,
        Some(fraction) if fraction.bytes().all(|b| b.is_ascii_digit()) => {
            let kept = format!("{:0<6}", fraction.get(..6).unwrap_or(fraction));
            kept.parse::<i64>().ok()?
        }
        _ => return None,
    };
    let fits = hour < 24 && minute < 60 && second < 60;
    fits.then(|| ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// Microseconds that a zone is before UTC; names of regions are not known here.
fn offset(zone: &str) -> Option<i64> {
    let zone = zone
        .strip_prefix("UTC")
        .or(zone.strip_prefix("GMT"))
        .unwrap_or(zone);
    let (sign, text) = match zone.split_at_checked(1) {
        None => return Some(0),
        Some(("Z", "")) => return Some(0),
        Some(("+", text)) => (1, text),
        Some(("-", text)) => (-1, text),
        _ => return None,
    };
    let (hours, minutes) = match text.split_once(':') {
        Some(parts) => parts,
        None if text.len() == 4 && text.is_ascii() => text.split_at(2),
        None => (text, "0"),
    };
    let (hours, rest) = digits(hours, 1, 2)?;
    let (minutes, end) = digits(minutes, 1, 2)?;
    let fits = rest.is_empty() && end.is_empty() && hours <= 18 && minutes < 60;
    fits.then(|| sign * (hours * 60 + minutes) * 60_000_000)
}

/// A number as units of the last of `scale` digits behind the point, rounded half up; None if it has
/// more than `precision` digits.
pub fn decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !all().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // How many of the digits count.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let mut value: i128 = 0;
    let limit = 10i128.pow(u32::from(precision));
    let mut at = 0;
    for digit in all()
        .chain(std::iter::repeat(b'0'))
        .take(kept.max(0) as usize)
    {
        value = value * 10 + i128::from(digit - b'0');
        at += 1;
        if value >= limit {
            return None;
        }
        if value == 0 && at >= whole.len() + fraction.len() {
            break; // only zeros follow
        }
    }
    let next = usize::try_from(kept).ok().and_then(|kept| all().nth(kept));
    value += i128::from(next.is_some_and(|digit| digit >= b'5'));
    (value < limit).then_some(if negative { -value } else { value })
}

/// The bytes of a Base64 text, with its padding.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let (groups, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let padding = match group {
            [_, _, b'=', b'='] => 2,
            [_, _, _, b'='] => 1,
            _ => 0,
        };
        if padding > 0 && number + 1 < groups.len() {
            return None;
        }
        let mut bits = 0u32;
        for &b in &group[..4 - padding] {
            let value = match b {
                b'A'..=b'Z' => b - b'A',
                b'a'..=b'z' => b - b'a' + 26,
                b'0'..=b'9' => b - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        bits <<= 6 * padding;
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2024-02-29"), Some(19_782));
        assert_eq!(date("2024-2-9T10:00"), Some(19_762));
        assert_eq!(date("2024"), Some(19_723));
        assert_eq!(date("2024-03"), Some(19_783));
        assert_eq!(date("0001-01-01"), Some(-719_162));
        for wrong in [
            "",
            "x",
            "2023-02-29",
            "2024-13-01",
            "24-01-01",
            "2024-01-01x",
            "2024-",
        ] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times() {
        let day = 19_782 * DAY;
        assert_eq!(time("2024-02-29", true), Some(day));
        assert_eq!(time("2024-02-29T00:00:01Z", true), Some(day + 1_000_000));
        assert_eq!(
            time("2024-02-29 01:02:03.5", true),
            Some(day + 3_723_500_000)
        );
        assert_eq!(
            time("2024-02-29T01:00:00.1234567+01:00", true),
            Some(day + 123_456)
        );
        assert_eq!(time("2024-02-28T22:00:00-0200", true), Some(day));
        assert_eq!(time("2024-02-29T03:00 UTC+3", true), Some(day));
        assert_eq!(time("2024-02-29T03:00", false), Some(day + 10_800_000_000));
        assert_eq!(time("2024-02-29T03:00Z", false), None);
        for wrong in [
            "2024-02-29T",
            "2024-02-29T25:00",
            "2024-02-29T01:00:00+19:00",
            "now",
        ] {
            assert_eq!(time(wrong, true), None, "{wrong}");
        }
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal("1.005", 10, 2), Some(101));
        assert_eq!(decimal("-1.005", 10, 2), Some(-101));
        assert_eq!(decimal("12", 4, 2), Some(1200));
        assert_eq!(decimal("123", 4, 2), None);
        assert_eq!(decimal("99.995", 4, 2), None);
        assert_eq!(decimal("1.5e3", 10, 0), Some(1500));
        assert_eq!(decimal("15e-1", 10, 0), Some(2));
        assert_eq!(decimal("0.004", 10, 2), Some(0));
        assert_eq!(decimal("5e-9", 10, 2), Some(0));
        assert_eq!(decimal("0e999999999", 10, 2), Some(0));
        assert_eq!(decimal("1e999999999", 38, 2), None);
        assert_eq!(decimal("1e-999999999", 38, 2), Some(0));
        assert_eq!(decimal(&"9".repeat(38), 38, 0), Some(10i128.pow(38) - 1));
        for wrong in ["", ".", "x", "1.2.3", "1e"] {
            assert_eq!(decimal(wrong, 10, 2), None, "{wrong}");
        }
    }

    #[test]
    fn bytes() {
        assert_eq!(base64("").unwrap(), b"");
        assert_eq!(base64("aGVsbG8=").unwrap(), b"hello");
        assert_eq!(base64("aGVsbA==").unwrap(), b"hell");
        assert_eq!(base64("+/+/").unwrap(), [0xfb, 0xff, 0xbf]);
        for wrong in ["a", "aGVsbG8", "aG=sbG8=", "a===", "aGVs bG8="] {
            assert_eq!(base64(wrong), None, "{wrong}");
        }
    }
}
