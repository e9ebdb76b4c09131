//! What an endpoint's answer means for its message: the one table.

use std::time::Duration;

use http::StatusCode;
use onefold_messages::{IfLost, Sending};

/// `after` is what the answer asks for in `Retry-After`.
pub(crate) fn meaning(status: StatusCode, after: Option<Duration>, if_lost: IfLost) -> Sending {
    let reason = format!("the endpoint said {}", status.as_u16());
    match (status.as_u16(), after) {
        (200..=299, _) => Sending::Accepted,
        (425, after) => Sending::NotYet { after, reason },
        (429 | 503, Some(after)) => Sending::NotYet { after: Some(after), reason },
        // They speak of the endpoint as it is now, not of the message: it may be mended.
        (401 | 403 | 404 | 405 | 407 | 408 | 409 | 421 | 423 | 424 | 429, _) => Sending::Failed { reason },
        (400..=499, _) => Sending::Refused { reason },
        // A redirect may well follow an effect (303), and so may an error of the server's.
        _ => Sending::lost(reason, if_lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(status: u16, after: Option<u64>, if_lost: IfLost) -> &'static str {
        let status = StatusCode::from_u16(status).unwrap();
        match meaning(status, after.map(Duration::from_secs), if_lost) {
            Sending::Accepted => "accepted",
            Sending::NotYet { after: None, .. } => "not yet",
            Sending::NotYet { after: Some(_), .. } => "not before",
            Sending::Failed { .. } => "failed",
            Sending::Refused { .. } => "refused",
            Sending::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn every_status_has_one_meaning() {
        for status in 200..=299 {
            assert_eq!(word(status, None, IfLost::Hold), "accepted", "{status}");
        }
        let of_the_moment = [401, 403, 404, 405, 407, 408, 409, 421, 423, 424, 429];
        for status in (400..=499).filter(|status| *status != 425) {
            let expected = if of_the_moment.contains(&status) { "failed" } else { "refused" };
            assert_eq!(word(status, None, IfLost::Hold), expected, "{status}");
        }
        for status in (300..=399).chain(500..=599) {
            assert_eq!(word(status, None, IfLost::SendAgain), "failed", "{status}");
            assert_eq!(word(status, None, IfLost::Hold), "unknown", "{status}");
        }
    }

    #[test]
    fn patience_is_asked_for_by_these_alone() {
        for status in [425, 429, 503] {
            assert_eq!(word(status, Some(7), IfLost::Hold), "not before", "{status}");
        }
        assert_eq!(word(425, None, IfLost::Hold), "not yet");
        for (status, expected) in [(410, "refused"), (404, "failed"), (500, "unknown"), (200, "accepted")] {
            assert_eq!(word(status, Some(7), IfLost::Hold), expected, "{status}");
        }
    }
}
