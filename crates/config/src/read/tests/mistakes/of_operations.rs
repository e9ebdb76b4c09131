//! The mistakes of `[[operation]]` and `[defaults]`.

use super::assert_mistakes;

/// One operation with the required settings; `setting` stands in line 7.
fn assert_mistake(setting: &str, mistakes: &[&str]) {
    let head =
        "[[operation]]\nname = \"A\"\nmatch = { method = \"POST\", path = \"/a/{id}\" }\nboundary = \"b\"\n";
    let wanted: Vec<String> = mistakes.iter().map(|mistake| format!("7: operation[0].{mistake}")).collect();
    assert_mistakes(&format!("{head}{setting}\n"), &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_wrong_value_is_told_with_what_is_allowed() {
    for (setting, mistake) in [
        (r#"lease = "30x""#, r#"lease: "30x" is not a duration; write one such as 250ms, 30s, 5m, 7d"#),
        (r#"lease = 30"#, "lease: 30 is not a duration; write, in quotes, one such as 250ms, 30s, 5m, 7d"),
        (r#"retention = "99999d""#, r#"retention: "99999d": the longest duration is 36500d"#),
        (
            r#"retention = "ever""#,
            r#"retention: "ever" is not a duration or "forever"; write one such as 7d, 90d, forever"#,
        ),
        (
            r#"forward_key = "sam""#,
            r#"forward_key: "sam" is not allowed; allowed: "same", "derived", "none""#,
        ),
        (r#"response = true"#, r#"response: true is not allowed; allowed: "original", "current", "status""#),
        (r#"key_time = "uuid""#, r#"key_time: "uuid" is not allowed; allowed: "uuidv7", "ulid", "off""#),
        (
            r#"after_expiry = 1979-05-27"#,
            r#"after_expiry: 1979-05-27 is not allowed; allowed: "reject", "new""#,
        ),
        (r#"on_stale = "reconcile""#, r#"on_stale: "reconcile" needs somebody to ask: name it in reconcile"#),
        (
            r#"max_attempts = 4294967296"#,
            "max_attempts: 4294967296 is not a number that is allowed; write one from 0 to 4294967295 without quotes",
        ),
        (r#"key = "A""#, r#"key: "A" is not a table; write one with header, body, required, syntax"#),
        (r#"key = { header = ["A", "a"] }"#, "key.header: one header is named twice; write each name once"),
        (
            r#"remember = "final""#,
            r#"remember: "final" is not a table; write one such as { "5xx" = "unknown" }"#,
        ),
        (r#"subject = "/a""#, "subject: not available in this release"),
        (r#"authorize = {}"#, r#"authorize.url: required; write url = "http://127.0.0.1:3000/auth""#),
        (r#"audit_replays = true"#, "audit_replays: not available in this release"),
        (
            r#"scope = "credential""#,
            r#"scope: "credential" is not a list; write ["…"], each of them a part of a scope: credential, cookie:NAME, header:NAME, claim:NAME, path:NAME or shared"#,
        ),
        (
            r#"leese = "30s""#,
            "leese: unknown setting; did you mean lease? Allowed: name, match, boundary, scope, forward_key, key, \
             fingerprint, while_running, response, on_stale, lease, remember, max_attempts, retry_failed, retention, \
             key_time, after_expiry, store_response, authorize, reconcile",
        ),
    ] {
        assert_mistake(setting, &[mistake]);
    }
}

#[test]
fn every_mistake_within_a_table_is_told() {
    assert_mistake(
        r#"key = { header = "a b", body = "id", required = 1, syntax = "loose" }"#,
        &[
            r#"key.body: "id" is not a JSON pointer; write one such as /id, /items/0/price (RFC 6901; ~0 is ~, ~1 is /)"#,
            r#"key.header: "a b" is not a header name; write one such as Idempotency-Key"#,
            "key.required: 1 is neither true nor false; write one of them without quotes",
            r#"key.syntax: "loose" is not allowed; allowed: "lenient", "strict""#,
        ],
    );
    assert_mistake(
        r#"fingerprint = { body = "xml", ignore = ["", "/a~2"], headers = ["a:b"] }"#,
        &[
            r#"fingerprint.body: "xml" is not allowed; allowed: "auto", "json", "form", "multipart", "bytes""#,
            r#"fingerprint.headers[0]: "a:b" is not a header name; write one such as Idempotency-Key"#,
            r#"fingerprint.ignore[0]: "": the empty pointer names the whole body, not a field of it"#,
            r#"fingerprint.ignore[1]: "/a~2": `~` at byte 2 of a JSON pointer must be followed by `0` or `1` (RFC 6901)"#,
        ],
    );
    assert_mistake(
        r#"remember = { "6xx" = "final", "500" = "finall", "0500" = 3 }"#,
        &[
            r#"remember: "0500" is not a status; write a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx"#,
            r#"remember: "6xx" is not a status; write a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx"#,
            r#"remember.0500: 3 is not allowed; allowed: "final", "not_done", "unknown""#,
            r#"remember.500: "finall" is not allowed; allowed: "final", "not_done", "unknown""#,
        ],
    );
    assert_mistake(
        r#"store_response = { mode = "all", max = -1, redact = "/a", drop_headers = [1] }"#,
        &[
            "store_response.drop_headers[0]: 1 is not a header name; write, in quotes, one such as Idempotency-Key",
            "store_response.max: -1 is not a size; write one such as 64KiB, 1MiB, or a number of bytes",
            r#"store_response.mode: "all" is not allowed; allowed: "full", "reference", "none""#,
            r#"store_response.redact: "/a" is not a list; write ["…"], each of them a JSON pointer: one such as /id, /items/0/price (RFC 6901; ~0 is ~, ~1 is /)"#,
        ],
    );
    assert_mistake(
        r#"retry_failed = { attempts = 101, backoff = "0s" }"#,
        &[
            "retry_failed.attempts: 101 is not a number that is allowed; write one from 0 to 100 without quotes",
            r#"retry_failed.backoff: "0s": it must be more than 0s"#,
        ],
    );
}

#[test]
fn exactly_one_way_to_meet_a_running_attempt_is_chosen() {
    let allowed = r#"write { wait = "5s" }, { busy = true } or { accepted = true }"#;
    for (written, mistake) in [
        ("{}", format!("while_running: nothing is chosen; {allowed}")),
        ("{ busy = false }", format!("while_running.busy: false is not allowed; {allowed}")),
        (r#"{ wait = "5s", busy = true }"#, format!("while_running.wait: only one can be chosen; {allowed}")),
        (
            r#""busy""#,
            r#"while_running: "busy" is not a table; write one with wait, busy, accepted"#.to_owned(),
        ),
    ] {
        assert_mistake(&format!("while_running = {written}"), &[&mistake]);
    }
}

#[test]
fn what_could_double_an_effect_is_refused_in_the_line_that_says_it() {
    for (setting, mistake) in [
        (r#"lease = "999ms""#, "lease: the smallest lease is 1s"),
        (r#"retention = "0s""#, "retention: the smallest retention is 1s"),
        ("scope = []", r#"scope: at least one part, or "shared", is required"#),
        (r#"scope = ["shared", "credential"]"#, r#"scope: "shared" stands alone: it means everybody"#),
        (
            r#"scope = ["credential", "credential"]"#,
            "scope: one part stands in it twice; write each part once",
        ),
        (r#"scope = ["path:shop"]"#, "scope: path:shop is no named segment of /a/{id}; allowed: path:id"),
        (
            r#"scope = ["header:X-Tenant"]"#,
            "scope: header:X-Tenant comes from trusted proxies only, and there is none; name them in server.trusted_proxies",
        ),
        (
            r#"scope = ["claim:sub"]"#,
            "scope: claim:sub counts in a token whose signature verifies, and there is no key; name one in claims.keys",
        ),
        ("key = { header = [] }", "key: name a header or a body pointer that carries the key"),
        (
            "on_stale = \"resume\"\nforward_key = \"none\"",
            r#"on_stale: "resume" repeats the request, so the upstream must get the key: set forward_key to "same" or "derived""#,
        ),
    ] {
        assert_mistake(setting, &[mistake]);
    }
}

#[test]
fn a_part_of_a_scope_is_one_of_six() {
    assert_mistake(
        r#"scope = ["claim:", "tenant", "header:", "path:a-b"]"#,
        &[
            r#"scope[0]: "claim:": the colon is followed by the name of a claim"#,
            r#"scope[1]: "tenant" is not a part of a scope; write credential, cookie:NAME, header:NAME, claim:NAME, path:NAME or shared"#,
            r#"scope[2]: "header:": the colon is followed by the name of a header"#,
            r#"scope[3]: "path:a-b": the colon is followed by the name of a segment"#,
        ],
    );
}

#[test]
fn an_operation_has_a_name_a_match_and_a_boundary() {
    assert_mistakes(
        "[[operation]]\n[[operation]]\nname = \" \"\nmatch = { method = \"post\", path = \"orders\" }\nboundary = 7\n\
         [[operation]]\nname = \"B\"\nmatch = { method = \"GET\" }\nboundary = \" \"\n",
        &[
            r#"3: operation[0].boundary: a boundary in words is required, such as "one order for each key""#,
            r#"3: operation[0].match: required; write match = { method = "POST", path = "/orders" }"#,
            r#"3: operation[0].name: required; write name = "CreateOrder""#,
            r#"5: operation[1].name: " " is not a name; write 1 to 100 characters without blanks at the ends and without control characters"#,
            r#"6: operation[1].match.method: "post" is not a method; write one in capitals, such as POST, PUT, PATCH, DELETE"#,
            r#"6: operation[1].match.path: "orders" is not a path; write one such as /orders, /orders/{id}/items; segments may be {named}"#,
            "7: operation[1].boundary: 7 is not a boundary; write, in quotes, one such as one order for each key",
            r#"10: operation[2].match.method: "GET": safe methods pass through untouched and need no operation"#,
            r#"10: operation[2].match.path: required; write path = "/orders""#,
            r#"11: operation[2].boundary: a boundary in words is required, such as "one order for each key""#,
        ],
    );
    assert_mistakes("operation = 4\n", &["3: upstream.operation: unknown setting; allowed: url, timeout"]);
}

#[test]
fn two_operations_share_no_name_and_leave_each_other_requests() {
    let operation = |name: &str, path: &str| {
        format!(
            "[[operation]]\nname = \"{name}\"\nboundary = \"b\"\nmatch = {{ method = \"POST\", path = \"{path}\" }}\n"
        )
    };
    let text = operation("A", "/a/{x}")
        + &operation("A", "/a/{y}/")
        + &operation("C", "/a/new")
        + &operation("D", "/a");
    assert_mistakes(
        &text,
        &[
            r#"8: operation[1].name: "A" is the name of operation[0] already; write another"#,
            "10: operation[1].match: operation[1] never matches: POST /a/{x} of operation[0] takes its requests; write another match",
            "14: operation[2].match: operation[2] never matches: POST /a/{x} of operation[0] takes its requests; write another match, or put this operation first",
        ],
    );
}

#[test]
fn a_mistake_of_the_defaults_is_told_once_and_there() {
    assert_mistakes(
        r#"[defaults]
lease = "10ms"
name = "x"
scope = ["path:shop"]
key = { headr = "A" }
[[operation]]
name = "A"
match = { method = "POST", path = "/a" }
boundary = "b"
[[operation]]
name = "B"
match = { method = "POST", path = "/shops/{shop}" }
boundary = "b"
"#,
        &[
            "4: defaults.lease: the smallest lease is 1s",
            "5: defaults.name: unknown setting; allowed: boundary, scope, forward_key, key, fingerprint, while_running, \
             response, on_stale, lease, remember, max_attempts, retry_failed, retention, key_time, after_expiry, \
             store_response, authorize, reconcile",
            "6: defaults.scope: path:shop is no named segment of /a; it names none",
            "7: defaults.key.headr: unknown setting; did you mean header? Allowed: header, body, required, syntax",
        ],
    );
    assert_mistakes(
        "[defaults]\nscope = [\"header:X-Tenant\"]\n",
        &[
            "4: defaults.scope: header:X-Tenant comes from trusted proxies only, and there is none; name them in server.trusted_proxies",
        ],
    );
}

#[test]
fn every_mistake_of_a_look_up_is_told() {
    let get = r#"get = "http://h/{{key}}""#;
    let cases: &[(String, &[&str])] = &[
        (
            "{}".into(),
            &[
                r#"reconcile.get: required; write get = "http://127.0.0.1:3000/orders?key={{key}}""#,
                r#"reconcile.happened: required; write happened = "200""#,
            ],
        ),
        (
            r#"{ get = "http://h/{{id}}", happened = "20", did_not_happen = 404 }"#.into(),
            &[
                "reconcile.did_not_happen: 404 is not a status; write, in quotes, a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx",
                "reconcile.get: there is no such variable; allowed: {{key}}, {{operation_id}}, {{downstream_key}}; write one such as http://127.0.0.1:3000/orders?key={{key}}",
                r#"reconcile.happened: "20" is not a status; write a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx"#,
            ],
        ),
        (
            format!(r#"{{ {get}, happened = "200", did_not_happen = "404", fence = "settled" }}"#),
            &[r#"reconcile.window: required by the fence "settled"; write window = "30s""#],
        ),
        (
            format!(
                r#"{{ {get}, happened = "200", did_not_happen = "404", fence = "same_key", window = "30s" }}"#
            ),
            &[r#"reconcile.window: only the fence "settled" has a window"#],
        ),
        (
            format!(r#"{{ {get}, happened = "200", fence = "tombstoned" }}"#),
            &["reconcile.fence: no answer says that it did not happen; name one in did_not_happen"],
        ),
        (
            format!(r#"{{ {get}, happened = "4xx", did_not_happen = ["404", "4xx"] }}"#),
            &["reconcile.did_not_happen: 4xx stands in happened too; one status says one thing"],
        ),
        (
            format!(
                r#"{{ {get}, happened = "200", did_not_happen = "404", fence = "settled", window = "29s" }}"#
            ),
            &[
                "reconcile: the window, 29s, is shorter than upstream.timeout, 30s: by that the upstream may still be at work on the request",
            ],
        ),
        (
            r#"{ get = "http://h/orders", happened = "200" }"#.into(),
            &[
                "reconcile: the look-up asks the same for every operation: write {{key}}, {{operation_id}} or {{downstream_key}} into its URL",
            ],
        ),
    ];
    for (setting, mistakes) in cases {
        assert_mistake(&format!("reconcile = {setting}"), mistakes);
    }
}
