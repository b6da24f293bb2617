use super::*;
use proptest::prelude::*;

#[test]
fn integers_are_read_as_in_java() {
    for (text, n) in [
        ("0", 0),
        ("-0", 0),
        ("+3", 3),
        ("-3", -3),
        ("007", 7),
        ("0000000000000000000000000000000000000012", 12),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775808", i64::MIN),
        ("+009223372036854775807", i64::MAX),
        ("-0000000000000000", 0),
        ("0000000000000000000000000000000000000000000000000", 0),
        ("0000000000000000٠٠1", 1),
        ("３", 3),
        ("-１٢3", -123),
        ("\u{1c59}", 9),
    ] {
        assert_eq!(long(text.as_bytes()), Some(n), "{text}");
    }
    for text in [
        "",
        "+",
        "-",
        "+-3",
        "--3",
        " 3",
        "3 ",
        "3l",
        "3L",
        "3.0",
        "1e5",
        "0x3",
        "1_000",
        "x",
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999999999",
        "−3",
        "Ⅲ",
        "\u{1D7CE}",
        "3\u{1c5a}",
        "1234567890123456789x",
        "00000000000000000000000000000000x",
        "0000000000000000000000000000000012345678901234567890",
    ] {
        assert_eq!(long(text.as_bytes()), None, "{text}");
    }
    assert_eq!(long(b"1234567890123456789\xff"), None);
    assert_eq!(int(b"2147483647"), Some(i32::MAX));
    assert_eq!(int(b"-2147483648"), Some(i32::MIN));
    assert_eq!(int(b"2147483648"), None);
    assert_eq!(int(b"-2147483649"), None);
}

#[test]
fn zeros_are_sorted() {
    assert!(ZEROS.is_sorted());
    assert!(
        ZEROS
            .iter()
            .all(|&zero| char::from_u32(zero.into()).is_some_and(char::is_numeric))
    );
}

#[test]
fn doubles_are_read_as_in_java() {
    for (text, n) in [
        ("0", 0.0),
        ("-0", -0.0),
        ("3", 3.0),
        ("3.", 3.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("+2.5d", 2.5),
        ("2.5D", 2.5),
        ("2.5f", 2.5),
        ("0.1F", 0.1),
        ("1e5", 1e5),
        ("1E+5", 1e5),
        ("1.e-5", 1e-5),
        (".1e1f", 1.0),
        ("0123", 123.0),
        (" 2.5 ", 2.5),
        ("\u{0}\t\n2.5\u{1f}", 2.5),
        ("1e400", f64::INFINITY),
        ("-1e400", f64::NEG_INFINITY),
        ("1e-400", 0.0),
        ("1e99999999999999999999", f64::INFINITY),
        ("0e99999999999999999999", 0.0),
        ("4.9e-324", f64::from_bits(1)),
        ("1.7976931348623157e308", f64::MAX),
        ("Infinity", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        ("0x1p3", 8.0),
        ("0X1P3", 8.0),
        ("-0x1.8p1d", -3.0),
        ("0x.8p0", 0.5),
        ("0x10.p-1f", 8.0),
        ("0x0p0", 0.0),
        ("-0x0.0p99999999999", -0.0),
        ("0x1p1023", 2f64.powi(1023)),
        ("0x1p1024", f64::INFINITY),
        ("0x1p99999999999999999999", f64::INFINITY),
        ("0x1p-99999999999999999999", 0.0),
        ("0x1p-1022", f64::MIN_POSITIVE),
        ("0x1p-1074", f64::from_bits(1)),
        ("0x1p-1075", 0.0),
        ("0x1.8p-1075", f64::from_bits(1)),
        ("0x1.00000000000000000001p-1075", f64::from_bits(1)),
        ("0x1p-1076", 0.0),
        ("0x1.ffffffffffffffp-1076", 0.0),
        ("0x3p-1075", f64::from_bits(2)),
        ("0x0.fffffffffffffp-1022", f64::from_bits((1 << 52) - 1)),
        ("0x0.fffffffffffff8p-1022", f64::MIN_POSITIVE),
        ("0x1.fffffffffffffp1023", f64::MAX),
        ("0x1.fffffffffffff7p1023", f64::MAX),
        ("0x1.fffffffffffff8p1023", f64::INFINITY),
        ("0x1.00000000000008p0", 1.0),
        ("0x1.00000000000008000000000001p0", 1.0 + f64::EPSILON),
        ("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON),
        ("0x10000000000000000000000p-92", 0.0625),
    ] {
        let read = double(text.as_bytes()).unwrap_or_else(|| panic!("{text} is refused"));
        assert_eq!(read.to_bits(), n.to_bits(), "{text}: {read}");
    }
    for text in ["NaN", "+NaN", "-NaN", " NaN "] {
        assert!(double(text.as_bytes()).is_some_and(f64::is_nan), "{text}");
    }
    for text in [
        "",
        " ",
        "+",
        "-",
        ".",
        "-.",
        "e5",
        "1e",
        "1e+",
        "1e 5",
        "1 2",
        "1..2",
        "1.2.3",
        "--1",
        "+-1",
        "nan",
        "NAN",
        "inf",
        "infinity",
        "INFINITY",
        "Infinit",
        "NaNd",
        "Infinityf",
        "1_000",
        "1,5",
        "2.5l",
        "2.5dd",
        "2.5df",
        "d",
        "f",
        "x",
        "0x",
        "0x1",
        "0x1.8",
        "0xp1",
        "0x.p1",
        "0x1p",
        "0x1p+",
        "0xgp1",
        "0x1.8.8p1",
        "0x1p1.5",
        "0x1p1x",
        "x1p1",
        "３",
        "1e３",
        "- 1",
        "1\u{a0}",
    ] {
        assert_eq!(double(text.as_bytes()), None, "{text}");
    }
    assert_eq!(double(b"1\xff"), None);
    assert_eq!(double(b"\xff"), None);
}

/// A text with exactly the value of a double.
fn as_hexadecimal(n: f64) -> String {
    let bits = n.to_bits();
    let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let sign = if n.is_sign_negative() { "-" } else { "" };
    match exponent {
        0 => format!("{sign}0x0.{fraction:013x}p-1022"),
        _ => format!("{sign}0x1.{fraction:013x}p{}", exponent as i64 - 1023),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_number_or_none(text in prop::collection::vec(any::<u8>(), 0..40)) {
        long(&text);
        int(&text);
        double(&text);
    }

    #[test]
    fn nearly_numbers_are_a_number_or_none(
        text in "[-+]?(0x)?[0-9a-f]{0,20}[.]?[0-9a-f]{0,20}([ep][-+]?[0-9]{0,5})?[fd]?",
    ) {
        double(text.as_bytes());
        prop_assert_eq!(long(text.as_bytes()), text.parse().ok());
        prop_assert_eq!(int(text.as_bytes()), text.parse().ok());
    }

    #[test]
    fn every_double_is_read_back(bits: u64) {
        let n = f64::from_bits(bits);
        prop_assume!(n.is_finite());
        for text in [n.to_string(), format!("{n:e}"), as_hexadecimal(n)] {
            prop_assert_eq!(double(text.as_bytes()).map(f64::to_bits), Some(bits), "{}", text);
        }
    }

    #[test]
    fn every_long_is_read_back(n: i64) {
        prop_assert_eq!(long(n.to_string().as_bytes()), Some(n));
        prop_assert_eq!(int(n.to_string().as_bytes()), i32::try_from(n).ok());
    }

    /// The same binary number with its last digit behind the point.
    #[test]
    fn the_point_may_stand_anywhere(
        digits in "[0-9a-f]{1,40}",
        at in 0usize..40,
        exponent in -1200i64..1200,
    ) {
        let at = at.min(digits.len());
        let (whole, fraction) = digits.split_at(at);
        let moved = exponent + 4 * fraction.len() as i64;
        let a = double(format!("0x{digits}p{exponent}").as_bytes());
        let b = double(format!("0x{whole}.{fraction}p{moved}").as_bytes());
        prop_assert_eq!(a, b);
        prop_assert!(a.is_some());
    }
}
