//! What an answer must be: fresh, a replay of another one, or a problem that the layer made.

use onefold_testkit::Answer;
use onefold_testkit::wire::Line;

/// The fields that belong to one exchange or one connection, or that mark a replay; framing may differ.
const OWN_TO_ONE_EXCHANGE: [&str; 8] = [
    "connection",
    "content-length",
    "date",
    "idempotent-replayed",
    "keep-alive",
    "set-cookie",
    "trailer",
    "transfer-encoding",
];

/// The header lines that a replay keeps.
#[must_use]
pub fn kept_lines(answer: &Answer) -> Vec<Line> {
    let is_own = |name: &str| OWN_TO_ONE_EXCHANGE.iter().any(|own| name.eq_ignore_ascii_case(own));
    answer.headers.iter().filter(|(name, _)| !is_own(name)).cloned().collect()
}

/// The upstream answered, through the gateway and whole.
///
/// # Panics
/// Otherwise.
pub fn assert_fresh(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer}");
    assert!(answer.is_complete, "cut: {answer}");
    assert!(!answer.is_replay(), "marked as a replay: {answer}");
    assert_eq!(answer.problem(), None, "made by the layer: {answer}");
}

/// `replay` is marked as one and equals `first` in status, kept header lines, their order, and bytes.
///
/// # Panics
/// Otherwise.
pub fn assert_replay(replay: &Answer, first: &Answer) {
    assert!(replay.is_replay(), "not marked as a replay: {replay}");
    assert!(replay.is_complete, "cut: {replay}");
    assert_eq!(replay.status, first.status, "status; {replay}");
    assert_eq!(kept_lines(replay), kept_lines(first), "header lines");
    assert!(replay.body == first.body, "bytes differ: {replay}\nfirst: {first}");
}

/// The layer refused with this status and problem.
///
/// # Panics
/// Otherwise.
pub fn assert_problem(answer: &Answer, status: u16, problem: &str) {
    assert_eq!((answer.status, answer.problem().as_deref()), (status, Some(problem)), "{answer}");
}
