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
