//! How an exact decimal is written: as ECMAScript writes a Number (`Number::toString`, which RFC 8785 section 3.2.2.3
//! takes over), but with every digit. The two agree wherever the number's shortest digits as an IEEE 754 double are
//! its exact ones: `56.0` is `56`, `1e21` is `1e+21`; but 9007199254740993 stays what it is.

use super::number::{Exponent, Magnitude};

/// Appends a number.
pub(crate) fn put_number(out: &mut Vec<u8>, digits: &[u8], magnitude: Magnitude<'_>) {
    let Magnitude::Other { negative, exponent } = magnitude else {
        out.push(b'0');
        return;
    };
    if negative {
        out.push(b'-');
    }
    match exponent {
        Exponent::Small(exponent @ 0..=20) => put_large(out, digits, exponent as usize + 1),
        Exponent::Small(exponent @ -6..=-1) => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + (-exponent - 1) as usize, b'0');
            out.extend_from_slice(digits);
        }
        exponent => put_scientific(out, digits, exponent),
    }
}

/// Digits with `whole` places before the point.
fn put_large(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
        return;
    }
    out.extend_from_slice(&digits[..whole]);
    out.push(b'.');
    out.extend_from_slice(&digits[whole..]);
}

fn put_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: Exponent<'_>) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.push(b'e');
    let text = exponent.to_string();
    if !text.starts_with('-') {
        out.push(b'+');
    }
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use crate::json::canonical_text;

    #[test]
    fn numbers_are_written_as_ecmascript_writes_them_with_every_digit() {
        for (text, expected) in [
            ("56.0", "56"),
            ("-0.0", "0"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("-123456789012345678901234", "-1.23456789012345678901234e+23"),
            ("123456789012345678901.5", "123456789012345678901.5"),
            ("1e-6", "0.000001"),
            ("1e-7", "1e-7"),
            ("0.00000012", "1.2e-7"),
            ("12.50", "12.5"),
            ("333333333.33333329", "333333333.33333329"),
            ("9007199254740993", "9007199254740993"),
            ("1e99999999999999999999", "1e+99999999999999999999"),
            ("1E-099999999999999999999", "1e-99999999999999999999"),
        ] {
            assert_eq!(canonical_text(text.as_bytes()).unwrap(), expected.as_bytes(), "{text}");
        }
    }
}
