//! The order of member names in RFC 8785, section 3.2.3: by UTF-16 code units, found from UTF-8 without decoding.
//! The two orders differ in one thing: characters from U+10000 are surrogates in UTF-16 (D800 to DFFF) and come
//! before U+E000 to U+FFFF there. Where two names first differ at a character of one kind against one of the other,
//! the differing bytes are both first bytes, F0 to F4 against EE and EF; so raising EE and EF is enough.

use std::cmp::Ordering;

const WORD_BYTES: usize = 16;

/// Compares two names (valid UTF-8) by their UTF-16 code units.
pub(crate) fn utf16(one: &[u8], other: &[u8]) -> Ordering {
    let equal = equal_words(one, other) * WORD_BYTES;
    match one[equal..].iter().zip(&other[equal..]).find(|(a, b)| a != b) {
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
        None => one.len().cmp(&other.len()),
    }
}

/// How many words at the beginning are equal; long names may differ late.
fn equal_words(one: &[u8], other: &[u8]) -> usize {
    let (one, other) = (one.as_chunks::<WORD_BYTES>().0, other.as_chunks::<WORD_BYTES>().0);
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

fn rank(byte: u8) -> u8 {
    match byte {
        0xEE | 0xEF => byte + 0x10,
        _ => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_utf_16_code_units() {
        let names = [
            "",
            "a",
            "aa",
            "b",
            "é",
            "\u{7ff}",
            "\u{800}",
            "\u{d7ff}",
            "\u{e000}",
            "\u{f8ff}",
            "\u{ffff}",
            "\u{10000}",
            "\u{1f602}",
            "\u{10ffff}",
            "\u{ffff}a",
            "\u{10000}a",
            "a\u{ffff}",
            "a\u{10000}",
            "sixteen bytes ok",
            "sixteen bytes ok\u{ffff}",
            "sixteen bytes ok\u{10000}",
            "sixteen bytes o",
            "sixteen bytes o\u{e000}",
            "sixteen bytes o\u{10000}",
        ];
        for one in names {
            for other in names {
                let expected = one.encode_utf16().cmp(other.encode_utf16());
                assert_eq!(utf16(one.as_bytes(), other.as_bytes()), expected, "{one:?} {other:?}");
            }
        }
    }
}
