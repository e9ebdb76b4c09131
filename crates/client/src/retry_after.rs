//! `Retry-After`, in seconds or as a date, and the limit headers of a profile.
//!
//! A date is compared with the answer's own `Date`, so that the clocks of two hosts are not: with this host's clock
//! only where the answer has none. A wait is never read shorter than asked; what cannot be read asks for nothing.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, header};

use crate::clock;
use crate::limits::RETRY_AFTER_MAX;

/// The longest wait that an answer asks for in `Retry-After`, at most a day; `None` where it asks for none that can be
/// read. For those who send requests by other means than this crate's.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    match read(headers, None, clock::since_epoch()) {
        Asked::Wait(wait) => Some(wait),
        Asked::Nothing => None,
    }
}

/// What an answer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Wait(Duration),
    Nothing,
}

/// The longest wait that the answer asks for. `now` is the time since 1970.
pub(crate) fn read(headers: &HeaderMap, reset: Option<&HeaderName>, now: Duration) -> Asked {
    let sent_at = text(headers, &header::DATE).and_then(date).unwrap_or(now);
    let lines = headers.get_all(header::RETRY_AFTER).iter().filter_map(|line| line.to_str().ok());
    let after = lines.filter_map(|line| asks(line, sent_at)).max();
    let pushback = text(headers, &HeaderName::from_static("grpc-retry-pushback-ms"))
        .and_then(|value| value.parse().ok().map(Duration::from_millis));
    let lifted = reset
        .and_then(|name| text(headers, name))
        .and_then(seconds)
        // A limit that is not used up asks for nothing.
        .filter(|_| after.is_none() && text(headers, &REMAINING) == Some("0"))
        .map(|until| until.saturating_sub(sent_at));
    match [after, pushback, lifted].into_iter().flatten().max() {
        Some(wait) => Asked::Wait(wait.min(RETRY_AFTER_MAX)),
        None => Asked::Nothing,
    }
}

/// The longest wait in one line: seconds, a date, or a list that a proxy has made of several lines.
fn asks(line: &str, sent_at: Duration) -> Option<Duration> {
    match date(line.trim()) {
        Some(until) => Some(until.saturating_sub(sent_at)),
        None => line.split(',').filter_map(|one| seconds(one.trim())).max(),
    }
}

const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn seconds(value: &str) -> Option<Duration> {
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    // More digits than fit are a very long time, not none; a part of a second is a second.
    let seconds = whole.parse().unwrap_or(u64::MAX).saturating_add(u64::from(!part.is_empty()));
    Some(Duration::from_secs(seconds))
}

fn date(value: &str) -> Option<Duration> {
    httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &[(&'static str, &str)]) -> Asked {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        read(
            &headers,
            Some(&HeaderName::from_static("x-ratelimit-reset")),
            Duration::from_secs(1_700_000_000),
        )
    }

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_asks_for_nothing() {
        let wait = |seconds| Asked::Wait(Duration::from_secs(seconds));
        assert_eq!(asked(&[("retry-after", "7")]), wait(7));
        assert_eq!(asked(&[("retry-after", "0")]), wait(0));
        assert_eq!(asked(&[("retry-after", "99999999999999999999999")]), Asked::Wait(RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "1.5s", ".5", "soon", "Fri, 31 Dec"] {
            assert_eq!(asked(&[("retry-after", nonsense)]), Asked::Nothing, "{nonsense}");
        }
        let at = ("retry-after", "Tue, 14 Nov 2023 22:14:00 GMT");
        assert_eq!(asked(&[at]), wait(40), "by this host's clock");
        assert_eq!(asked(&[at, ("date", "Tue, 14 Nov 2023 22:13:30 GMT")]), wait(30), "by the answer's own");
        assert_eq!(asked(&[at, ("date", "Tue, 14 Nov 2023 23:00:00 GMT")]), wait(0));
    }

    #[test]
    fn the_longest_wait_counts_and_a_limit_only_when_it_is_used_up() {
        let reset = ("x-ratelimit-reset", "1700000090");
        assert_eq!(asked(&[reset, ("x-ratelimit-remaining", "0")]), Asked::Wait(Duration::from_secs(90)));
        assert_eq!(asked(&[reset, ("x-ratelimit-remaining", "9")]), Asked::Nothing);
        let pushback = ("grpc-retry-pushback-ms", "2500");
        assert_eq!(asked(&[pushback, ("retry-after", "1")]), Asked::Wait(Duration::from_millis(2500)));
        assert_eq!(asked(&[("grpc-retry-pushback-ms", "-1")]), Asked::Nothing);
    }

    #[test]
    fn the_longest_of_several_waits_counts_and_a_part_of_a_second_is_a_second() {
        let wait = |seconds| Asked::Wait(Duration::from_secs(seconds));
        assert_eq!(asked(&[("retry-after", "1"), ("retry-after", "6")]), wait(6));
        assert_eq!(asked(&[("retry-after", "1, 6")]), wait(6));
        assert_eq!(asked(&[("retry-after", "1.5")]), wait(2));
    }
}
