//! The exact value of a JSON number, of any size, from its text in chunks of any size.
//!
//! A value other than zero is `sign d.ddd × 10^exponent`, where the first and the last digit are not zero; that is
//! unique, so equal values have equal digits, signs and exponents, and nothing is rounded. Digits are passed on as
//! they come. Zeros are counted until it is clear whether they matter, and only the digits of a written exponent
//! are held, however long (see [`Decimal::held`]); a power of ten is never expanded. Time is linear in the text.

/// A number being read; its text is known to follow the grammar.
#[derive(Debug, Default)]
pub(crate) struct Decimal {
    section: Section,
    negative: bool,
    /// Whether a digit other than zero has come.
    begun: bool,
    /// Zeros after it that matter only if another digit follows.
    zeros: u64,
    /// What the place of the point adds to the exponent. It is at most the length of the text.
    shift: i64,
    exponent_negative: bool,
    /// The written exponent without leading zeros.
    exponent: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Section {
    #[default]
    Integer,
    Fraction,
    Exponent,
}

/// What a number is, beside its digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magnitude<'a> {
    Zero,
    Other { negative: bool, exponent: Exponent<'a> },
}

/// The power of ten of the first digit. Which variant is used depends on the notation; the value does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exponent<'a> {
    Small(i64),
    Large { negative: bool, digits: &'a [u8] },
}

/// Exponents of so many digits are added as machine integers: 10^18, and any length of a text, fit in 63 bits.
const SMALL_DIGITS: usize = 18;

impl Decimal {
    /// Forgets the number, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.exponent.clear();
        *self = Self { exponent: std::mem::take(&mut self.exponent), ..Self::default() };
    }

    /// How many bytes are held.
    pub(crate) fn held(&self) -> usize {
        self.exponent.len()
    }

    /// Takes more of the text and emits the significant digits it makes certain.
    pub(crate) fn push(&mut self, text: &[u8], mut emit: impl FnMut(&[u8])) {
        let mut rest = text;
        while let Some(first) = rest.first() {
            if first.is_ascii_digit() {
                let run = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
                match self.section {
                    Section::Exponent => self.exponent_digits(&rest[..run]),
                    _ => self.digits(&rest[..run], &mut emit),
                }
                rest = &rest[run..];
                continue;
            }
            match (first, self.section) {
                (b'-', Section::Exponent) => self.exponent_negative = true,
                (b'-', _) => self.negative = true,
                (b'.', _) => self.section = Section::Fraction,
                (b'e' | b'E', _) => self.section = Section::Exponent,
                _ => {}
            }
            rest = &rest[1..];
        }
    }

    fn digits(&mut self, run: &[u8], emit: &mut impl FnMut(&[u8])) {
        let mut run = run;
        if !self.begun {
            let leading = run.iter().take_while(|digit| **digit == b'0').count();
            run = &run[leading..];
            if self.section == Section::Fraction {
                self.shift -= leading as i64;
            }
            if run.is_empty() {
                return;
            }
            self.begun = true;
            self.shift -= 1;
        }
        if self.section == Section::Integer {
            self.shift += run.len() as i64;
        }
        match run.iter().rposition(|digit| *digit != b'0') {
            None => self.zeros += run.len() as u64,
            Some(last) => {
                emit_zeros(self.zeros, emit);
                emit(&run[..=last]);
                self.zeros = (run.len() - 1 - last) as u64;
            }
        }
    }

    fn exponent_digits(&mut self, run: &[u8]) {
        let leading = match self.exponent.is_empty() {
            true => run.iter().take_while(|digit| **digit == b'0').count(),
            false => 0,
        };
        self.exponent.extend_from_slice(&run[leading..]);
    }

    /// Says that the text is complete.
    pub(crate) fn finish(&mut self) -> Magnitude<'_> {
        if !self.begun {
            return Magnitude::Zero;
        }
        let negative = self.negative;
        if self.exponent.len() <= SMALL_DIGITS {
            let written = self.exponent.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            let written = if self.exponent_negative { -written } else { written };
            return Magnitude::Other { negative, exponent: Exponent::Small(written + self.shift) };
        }
        match self.exponent_negative == (self.shift < 0) {
            true => add(&mut self.exponent, self.shift.unsigned_abs()),
            false => subtract(&mut self.exponent, self.shift.unsigned_abs()),
        }
        let exponent = Exponent::Large { negative: self.exponent_negative, digits: &self.exponent };
        Magnitude::Other { negative, exponent }
    }
}

fn emit_zeros(mut count: u64, emit: &mut impl FnMut(&[u8])) {
    const ZEROS: [u8; 256] = [b'0'; 256];
    while count > 0 {
        let some = count.min(ZEROS.len() as u64);
        emit(&ZEROS[..some as usize]);
        count -= some;
    }
}

/// Adds to a decimal in place.
fn add(digits: &mut Vec<u8>, amount: u64) {
    let mut carry = amount;
    for digit in digits.iter_mut().rev() {
        if carry == 0 {
            return;
        }
        let sum = u64::from(*digit - b'0') + carry % 10;
        *digit = b'0' + (sum % 10) as u8;
        carry = carry / 10 + sum / 10;
    }
    if carry > 0 {
        digits.splice(0..0, carry.to_string().into_bytes());
    }
}

/// Takes a smaller amount from a decimal in place.
fn subtract(digits: &mut Vec<u8>, amount: u64) {
    let mut borrow = amount;
    for digit in digits.iter_mut().rev() {
        if borrow == 0 {
            break;
        }
        let have = u64::from(*digit - b'0');
        let take = borrow % 10;
        borrow /= 10;
        *digit = match have.checked_sub(take) {
            Some(left) => b'0' + left as u8,
            None => {
                borrow += 1;
                b'0' + (have + 10 - take) as u8
            }
        };
    }
    assert!(borrow == 0, "a text cannot be 10^18 bytes long");
    let leading = digits.iter().take_while(|digit| **digit == b'0').count();
    digits.drain(..leading);
}

impl std::fmt::Display for Exponent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Small(value) => write!(f, "{value}"),
            Self::Large { negative, digits } => {
                f.write_str(if *negative { "-" } else { "" })?;
                f.write_str(std::str::from_utf8(digits).expect("digits are ASCII"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sign, digits and exponent as one text, read in chunks.
    fn exact(text: &str, chunk: usize) -> String {
        let mut decimal = Decimal::default();
        let mut digits = Vec::new();
        text.as_bytes()
            .chunks(chunk)
            .for_each(|part| decimal.push(part, |some| digits.extend_from_slice(some)));
        let digits = String::from_utf8(digits).unwrap();
        match decimal.finish() {
            Magnitude::Zero => "0".to_owned(),
            Magnitude::Other { negative, exponent } => {
                format!("{}{digits}e{exponent}", if negative { "-" } else { "" })
            }
        }
    }

    /// The value as 200 places before the point and 200 behind it.
    fn expanded(text: &str) -> String {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().unwrap();
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut places = vec![b'0'; 400];
        for (at, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
            let place = 200 - whole.len() as i64 - exponent + at as i64;
            places[usize::try_from(place).unwrap()] = digit;
        }
        let places = String::from_utf8(places).unwrap();
        let zero = places.bytes().all(|digit| digit == b'0');
        format!("{}{places}", if zero { "" } else { sign })
    }

    const NUMBER: &str =
        "-?(0|[1-9][0-9]{0,3}|[1-9]0{1,25}[0-9])(\\.([0-9]{1,3}|0{0,20}[0-9]))?([eE][+-]?[0-9]{1,2})?";

    proptest! {
        #[test]
        fn exact_values_are_equal_if_their_expansions_are(one in NUMBER, shift in 0i64..6, other in NUMBER) {
            let (mantissa, exponent) = one.split_once(['e', 'E']).unwrap_or((&one, "0"));
            let point = if mantissa.contains('.') { "" } else { "." };
            let zeros = "0".repeat(shift as usize + 1);
            let written_longer = format!("{mantissa}{point}{zeros}e{exponent}");
            let tenfold = format!("{mantissa}e{}", exponent.parse::<i64>().unwrap() + shift);
            prop_assert_eq!(exact(&one, 99), exact(&written_longer, 99));
            for text in [&written_longer, &tenfold, &other] {
                let equal = exact(&one, 99) == exact(text, 99);
                prop_assert_eq!(equal, expanded(&one) == expanded(text), "{} {}", one, text);
                prop_assert_eq!(exact(text, 1), exact(text, 99));
                prop_assert_eq!(exact(text, 3), exact(text, 99));
            }
        }

        #[test]
        fn long_exponents_are_added_as_128_bit_integers_are(
            exponent in -9_999_999_999_999_999_999_999_999i128..9_999_999_999_999_999_999_999_999,
            before in 1usize..40,
            behind in 0usize..40,
        ) {
            let large = format!("1{}e{exponent}", "0".repeat(before));
            prop_assert_eq!(exact(&large, 99), format!("1e{}", exponent + before as i128));
            let small = format!("0.{}1e{exponent}", "0".repeat(behind));
            prop_assert_eq!(exact(&small, 99), format!("1e{}", exponent - 1 - behind as i128));
        }

        #[test]
        fn carries_and_borrows_run_through(length in 19usize..60, places in 1usize..30) {
            let nines = format!("10e{}", "9".repeat(length));
            prop_assert_eq!(exact(&nines, 7), format!("1e1{}", "0".repeat(length)));
            let power = format!("0.1e1{}", "0".repeat(length));
            prop_assert_eq!(exact(&power, 7), format!("1e{}", "9".repeat(length)));
            let far = format!("1{}e-1{}", "0".repeat(places), "0".repeat(length));
            let left = 10i128.pow(length.min(36) as u32) - places as i128;
            let expected = format!("1e-{}{left}", "9".repeat(length - length.min(36)));
            prop_assert_eq!(exact(&far, 7), expected);
        }
    }

    #[test]
    fn zero_has_no_sign_and_no_exponent() {
        for text in ["0", "-0", "0.000", "-0e5", "0E-99999999999999999999999999"] {
            assert_eq!(exact(text, 2), "0", "{text}");
        }
    }

    #[test]
    fn only_the_exponent_is_held() {
        let mut decimal = Decimal::default();
        decimal.push(b"1234567890.5", |_| {});
        assert_eq!(decimal.held(), 0);
        decimal.push(b"e000", |_| {});
        assert_eq!(decimal.held(), 0);
        decimal.push(b"123", |_| {});
        assert_eq!(decimal.held(), 3);
    }

    #[test]
    fn a_cleared_number_is_as_a_new_one() {
        let mut decimal = Decimal::default();
        decimal.push(b"-0.0012e-34", |_| {});
        decimal.clear();
        decimal.push(b"7", |_| {});
        let expected = Magnitude::Other { negative: false, exponent: Exponent::Small(0) };
        assert_eq!(decimal.finish(), expected);
    }
}
