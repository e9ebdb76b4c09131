//! Durations and sizes: whole numbers with a unit. No fraction, no sign, no blank, no sum of several.

use std::time::Duration;

use onefold_core::contract::Retention;

use crate::kind::{Kind, Wrong};

/// The longest duration: what is longer is meant to be for ever, and sums of it must not overflow.
const DAYS_MAX: u64 = 36_500;
pub(crate) const DURATION: Kind<Duration> =
    Kind { what: "a duration", write: "one such as 250ms, 30s, 5m, 7d", parse: parse_duration };

/// A duration above zero.
pub(crate) const SPAN: Kind<Duration> = Kind {
    parse: |text| match parse_duration(text)? {
        Duration::ZERO => Err(Wrong::Because("it must be more than 0s".into())),
        span => Ok(span),
    },
    ..DURATION
};

pub(crate) const RETENTION: Kind<Retention> = Kind {
    what: "a duration or \"forever\"",
    write: "one such as 7d, 90d, forever",
    parse: |text| match text {
        "forever" => Ok(Retention::Forever),
        _ => parse_duration(text).map(Retention::For),
    },
};

/// A size in bytes.
pub(crate) const SIZE: Kind<u64> =
    Kind { what: "a size", write: "one such as 64KiB, 1MiB, or a number of bytes", parse: parse_size };

/// The text is no duration or no size; what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAQuantity(String);

/// A duration as flags and settings write it: a whole number and `ms`, `s`, `m`, `h` or `d`. At most 36500 days.
pub fn duration(text: &str) -> Result<Duration, NotAQuantity> {
    DURATION.read(text).map_err(NotAQuantity)
}

/// A size in bytes as flags and settings write it: a whole number, plain or with `KiB`, `MiB` or `GiB`.
pub fn size(text: &str) -> Result<u64, NotAQuantity> {
    SIZE.read(text).map_err(NotAQuantity)
}

fn number_and_unit(text: &str) -> Option<(&str, &str)> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    (end > 0).then(|| text.split_at(end))
}

fn parse_duration(text: &str) -> Result<Duration, Wrong> {
    let (number, unit) = number_and_unit(text).ok_or(Wrong::Kind)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(Wrong::Kind),
    };
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    match ms {
        Some(ms) if ms <= DAYS_MAX * 86_400_000 => Ok(Duration::from_millis(ms)),
        _ => Err(Wrong::Because(format!("the longest duration is {DAYS_MAX}d"))),
    }
}

fn parse_size(text: &str) -> Result<u64, Wrong> {
    let (number, unit) = number_and_unit(text).ok_or(Wrong::Kind)?;
    let unit_bytes = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(Wrong::Kind),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_bytes));
    // TOML's integers and the store's end at 63 bits.
    bytes
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| Wrong::Because("this is more than any disk holds".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_and_a_unit() {
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("12h", 43_200_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in [
            "",
            "30",
            "s",
            "30x",
            "1.5s",
            "-1s",
            "1h30m",
            " 1s",
            "1 s",
            "1S",
            "99999999999999999999s",
            "36501d",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_counts_bytes_or_binary_multiples() {
        for (text, bytes) in
            [("0", 0), ("65536", 65_536), ("64KiB", 65_536), ("1MiB", 1 << 20), ("2GiB", 2 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "KiB", "10KB", "1kib", "1.5MiB", "-1", "9999999999GiB", "18446744073709551615"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_long_value_is_cut_in_an_error() {
        let error = duration(&"ü".repeat(500)).unwrap_err().to_string();
        assert!(error.chars().count() < 150, "{error}");
    }
}
