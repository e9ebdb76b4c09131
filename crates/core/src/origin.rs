//! What a message comes from: the workflow, the cause and the trace that its headers name (`docs/messages.md`).
//!
//! None of them deduplicates, and none is made up: what was not said, or cannot stand in a header, is left out.

use crate::Message;

/// The header that ties the operations of one workflow together. It never deduplicates.
pub const CORRELATION_ID: &str = "onefold-correlation-id";
/// The header that names the message or the operation that caused this one.
pub const CAUSATION_ID: &str = "onefold-causation-id";
/// The header of the W3C's trace context.
pub const TRACEPARENT: &str = "traceparent";

/// The longest id that a header carries, in bytes.
const ID_BYTES_MAX: usize = 255;
/// The longest trace context that is handed on, in bytes: later versions may be longer than today's 55.
const TRACEPARENT_BYTES_MAX: usize = 255;

/// The id of a workflow or of a cause as a header says it: visible ASCII. Anything else is left out.
pub fn header_id(said: &str) -> Option<&str> {
    let fits = (1..=ID_BYTES_MAX).contains(&said.len());
    Some(said).filter(|said| fits && said.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// A trace context as a header says it (W3C Trace Context, section 3.2): version, trace, parent and flags. Anything
/// else is left out. Later versions may say more behind these, which is handed on with them.
pub fn traceparent(said: &str) -> Option<&str> {
    let mut parts = said.splitn(5, '-');
    let mut hex = |digits: usize| {
        let part = parts.next()?;
        let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (part.len() == digits && is_hex).then_some(part)
    };
    let (version, trace, parent, _flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
    let more = parts.next();
    let names = |id: &str| id.bytes().any(|byte| byte != b'0');
    let is_known = version == "00" && more.is_none();
    let is_later = !matches!(version, "00" | "ff") && said.len() <= TRACEPARENT_BYTES_MAX;
    let is_text = more.is_none_or(|more| more.bytes().all(|byte| byte.is_ascii_graphic()));
    (names(trace) && names(parent) && is_text && (is_known || is_later)).then_some(said)
}

/// What a message comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Ties it to a workflow.
    pub correlation_id: Option<String>,
    /// The id of the message or the operation that caused it.
    pub causation_id: Option<String>,
    /// The trace that it belongs to.
    pub traceparent: Option<String>,
}

impl Message {
    /// With the lines of this origin, but for those that it has itself and those that cannot stand in a header.
    pub fn coming_from(mut self, origin: &Origin) -> Message {
        let lines = [
            (CORRELATION_ID, origin.correlation_id.as_deref().and_then(header_id)),
            (CAUSATION_ID, origin.causation_id.as_deref().and_then(header_id)),
            (TRACEPARENT, origin.traceparent.as_deref().and_then(traceparent)),
        ];
        for (name, value) in lines {
            let named = self.headers.iter().any(|(found, _)| found.eq_ignore_ascii_case(name));
            if let Some(value) = value.filter(|_| !named) {
                self.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_handed_on_as_it_came_or_not_at_all() {
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes";
        for said in [TRACE, later] {
            assert_eq!(traceparent(said), Some(said));
        }
        for said in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-a b",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(traceparent(said), None, "{said}");
        }
    }

    #[test]
    fn a_message_names_its_origin_unless_it_names_another_one() {
        let message = Message {
            id: Key::new("m-1").expect("a key"),
            destination: "shop".into(),
            address: String::new(),
            ordering_key: None,
            headers: vec![("Onefold-Causation-Id".into(), "evt-0".into())],
            body: Vec::new(),
        };
        let origin = Origin {
            correlation_id: Some("flow-7".into()),
            causation_id: Some("evt-1".into()),
            traceparent: Some(TRACE.into()),
        };
        let expected = [("Onefold-Causation-Id", "evt-0"), (CORRELATION_ID, "flow-7"), (TRACEPARENT, TRACE)];
        let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(message.clone().coming_from(&origin).headers, expected);
        let unfit = Origin {
            correlation_id: Some("a\nb".into()),
            causation_id: Some("a key with blanks".into()),
            traceparent: Some("made up".into()),
        };
        assert_eq!(message.clone().coming_from(&unfit), message);
    }
}
