//! What answers mean: Onefold's documents, providers' answers, and statuses.

use super::*;

fn answer(profile: &str, status: u16, lines: &[(&'static str, &str)], body: &str) -> Reading {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.insert(*name, value.parse().unwrap());
    }
    let status = StatusCode::from_u16(status).unwrap();
    let received = Received { status, headers: &headers, body: body.as_bytes() };
    read(received, &Profile::shipped(profile).unwrap(), Duration::ZERO)
}

const PROBLEM: (&str, &str) = ("content-type", "application/problem+json");

#[test]
fn each_problem_of_onefold_is_understood() {
    for problem in Problem::ALL {
        let body = format!(r#"{{"type":"{TYPE_BASE}{}"}}"#, problem.code());
        let means = answer("stripe", problem.status(), &[PROBLEM], &body).means;
        let expected = match problem.code() {
            "key-conflict" | "message-conflict" => Means::Conflict,
            "in-progress" | "owner-alive" | "authorization-unavailable" => Means::InProgress,
            "outcome-unknown" => Means::Unknown,
            "key-expired" => Means::Expired,
            "response-not-kept" => Means::NotKept,
            "store-unavailable" | "too-many-keys" | "upstream-unreachable" | "inbox-full" => Means::NotDone,
            _ => Means::Refused,
        };
        assert_eq!(means, expected, "{problem:?}");
    }
}

#[test]
fn a_document_that_only_looks_like_onefolds_counts_by_its_status() {
    let body = format!(r#"{{"type":"{TYPE_BASE}in-progress"}}"#);
    assert_eq!(answer("onefold", 409, &[("content-type", "application/json")], &body).means, Means::Rejected);
    let body = r#"{"type":"https://elsewhere.example/problems/in-progress"}"#;
    assert_eq!(answer("onefold", 409, &[PROBLEM], body).means, Means::Rejected);
}

#[test]
fn what_a_document_says_about_waiting_and_new_keys_is_read() {
    let body = format!(
        r#"{{"type":"{TYPE_BASE}in-progress","operation":"/operations/ab","retry_after_ms":1500,"safe_to_use_new_key":false}}"#
    );
    let reading = answer("onefold", 409, &[PROBLEM], &body);
    assert_eq!(reading.poll.as_deref(), Some("/operations/ab"));
    assert_eq!(reading.retry_after, Some(Duration::from_millis(1500)));
    assert_eq!(reading.safe_to_use_new_key, Some(false));
    let reading = answer("onefold", 409, &[PROBLEM, ("retry-after", "2")], &body);
    assert_eq!(reading.retry_after, Some(Duration::from_secs(2)));
}

#[test]
fn a_page_elsewhere_is_not_asked_with_this_hosts_credentials() {
    for path in ["https://evil.example/x", "//evil.example/x", "/\\evil.example", "operations/ab", ""] {
        let reading = answer("onefold", 200, &[("onefold-operation", path)], "");
        assert_eq!(reading.poll, None, "{path}");
    }
}

#[test]
fn statuses_mean_what_they_mean_in_the_gateway() {
    for (status, means) in [
        (200, Means::Succeeded),
        (202, Means::Succeeded),
        (302, Means::Succeeded),
        (400, Means::Rejected),
        (404, Means::Rejected),
        (409, Means::Rejected),
        (422, Means::Rejected),
        (401, Means::Refused),
        (403, Means::Refused),
        (408, Means::NotDone),
        (429, Means::NotDone),
        (500, Means::Unknown),
        (502, Means::Unknown),
        (503, Means::Unknown),
    ] {
        assert_eq!(answer("onefold", status, &[], "{}").means, means, "{status}");
    }
    assert_eq!(answer("onefold", 503, &[("retry-after", "1")], "").means, Means::NotDone);
}

#[test]
fn only_the_layers_own_202_is_in_progress() {
    let page = ("onefold-operation", "/operations/ab");
    let own = [page, ("location", "/operations/ab"), ("retry-after", "1")];
    assert_eq!(answer("onefold", 202, &own, "{}").means, Means::InProgress);
    assert_eq!(answer("onefold", 202, &[page, ("location", "/jobs/7")], "{}").means, Means::Succeeded);
}

#[test]
fn providers_answers_are_understood() {
    let draft = r#"{"type":"https://developer.example.com/idempotency","title":"outstanding"}"#;
    let github = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "77")];
    for (profile, status, lines, body, means) in [
        ("draft", 409, &[][..], draft, Means::InProgress),
        ("draft", 422, &[], draft, Means::Conflict),
        ("draft", 409, &[], r#"{"error":"out of stock"}"#, Means::Rejected),
        ("draft", 422, &[], r#"{"error":"no such sku"}"#, Means::Rejected),
        ("stripe", 409, &[], r#"{"error":{"code":"idempotency_key_in_use"}}"#, Means::InProgress),
        ("stripe", 400, &[], r#"{"error":{"type":"idempotency_error"}}"#, Means::Conflict),
        ("stripe", 402, &[], r#"{"error":{"code":"card_declined"}}"#, Means::Rejected),
        ("stripe", 500, &[("stripe-should-retry", "false")], "", Means::UnknownFinal),
        ("stripe", 500, &[], "", Means::Unknown),
        ("adyen", 422, &[], r#"{"errorCode":"704"}"#, Means::InProgress),
        ("adyen", 422, &[("transient-error", "true")], "{}", Means::Unknown),
        ("adyen", 422, &[], r#"{"errorCode":"101"}"#, Means::Rejected),
        ("square", 400, &[], r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#, Means::Conflict),
        ("paypal", 422, &[], r#"{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}"#, Means::InProgress),
        ("paypal", 422, &[], r#"{"details":[{"issue":"DUPLICATE_REQUEST_ID"}]}"#, Means::Conflict),
        ("github", 403, &github, "{}", Means::NotDone),
        ("github", 403, &[("retry-after", "60")], "{}", Means::NotDone),
        ("github", 403, &[("x-ratelimit-remaining", "9")], "{}", Means::Refused),
        ("grpc", 200, &[("grpc-status", "0")], "", Means::Succeeded),
        ("grpc", 200, &[("grpc-status", "14")], "", Means::Unknown),
        ("grpc", 200, &[("grpc-status", "8")], "", Means::NotDone),
        ("grpc", 200, &[("grpc-status", "3")], "", Means::Rejected),
        ("grpc", 200, &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")], "", Means::UnknownFinal),
    ] {
        assert_eq!(answer(profile, status, lines, body).means, means, "{profile} {status} {lines:?} {body}");
    }
    assert_eq!(answer("github", 403, &github, "").retry_after, Some(Duration::from_secs(77)));
    assert!(answer("stripe", 200, &[("idempotent-replayed", "true")], "").replayed);
}

#[test]
fn pages_are_read() {
    let page = |status: u16, body: &str| {
        let headers = HeaderMap::new();
        let status = StatusCode::from_u16(status).unwrap();
        read_page(Received { status, headers: &headers, body: body.as_bytes() }, Duration::ZERO)
    };
    let second = Some(Duration::from_secs(1));
    for (status, body, expected) in [
        (200, r#"{"state":"succeeded"}"#, Page::Settled),
        (200, r#"{"state":"rejected"}"#, Page::Settled),
        (200, r#"{"state":"failed","answers":{"new_attempt":"no"}}"#, Page::Settled),
        (200, r#"{"state":"failed","answers":{"new_attempt":"yes"}}"#, Page::Free),
        (200, r#"{"state":"processing","retry_after_ms":1000}"#, Page::Running { retry_after: second }),
        (200, r#"{"state":"outcome_unknown","retry_after_ms":1000}"#, Page::Unknown { retry_after: second }),
        (200, r#"{"state":"dreaming"}"#, Page::Gone),
        (200, "<html>", Page::Gone),
        (404, "{}", Page::Gone),
        (401, "{}", Page::Gone),
        (503, "", Page::Running { retry_after: None }),
    ] {
        assert_eq!(page(status, body), expected, "{status} {body}");
    }
}

#[test]
fn a_problem_of_a_later_release_is_not_taken_for_a_rejection() {
    let body = format!(r#"{{"type":"{TYPE_BASE}held-for-review","safe_to_use_new_key":false}}"#);
    let reading = answer("onefold", 409, &[PROBLEM], &body);
    assert_eq!((reading.means, reading.safe_to_use_new_key), (Means::Unknown, Some(false)));
}

#[test]
fn a_redirect_that_keeps_the_method_has_done_nothing() {
    for status in [307, 308] {
        assert_eq!(answer("onefold", status, &[("location", "/elsewhere")], "").means, Means::Refused);
    }
    assert_eq!(answer("onefold", 303, &[("location", "/orders/1")], "").means, Means::Succeeded);
}

#[test]
fn what_speaks_of_the_operation_is_told_from_what_speaks_of_one_request() {
    assert!(!answer("github", 404, &[], "{}").settles);
    assert!(answer("onefold", 404, &[("onefold-operation", "/operations/ab")], "{}").settles);
    assert!(answer("onefold", 404, &[("idempotent-replayed", "true")], "{}").settles);
}
