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
