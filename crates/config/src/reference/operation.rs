//! The settings of `[[operation]]`.

use super::Preset::{Is, Means, Required};
use super::Setting;

pub(super) const SAYS: &str = "\
One operation and what it promises. The first whose `match` fits a request wins; a request that fits none passes \
through untouched, and so do GET, HEAD, OPTIONS and TRACE. Names are given once, and an operation that could never \
match, because an earlier one takes all its requests, is an error.";

pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "name",
        value: "string, 1 to 100 characters",
        default: Required,
        says: "The operation's name, part of its identity: renaming it forgets what happened.",
    },
    Setting {
        name: "match.method",
        value: "method in capitals, not a safe one",
        default: Required,
        says: "The method.",
    },
    Setting {
        name: "match.path",
        value: "path; segments may be `{named}`",
        default: Required,
        says: "The path, compared after normalization; a named segment takes one segment.",
    },
    Setting {
        name: "boundary",
        value: "string",
        default: Required,
        says: "The one effect in words, such as \"one order for each key\".",
    },
    Setting {
        name: "scope",
        value: "list of `\"credential\"`, `\"cookie:NAME\"`, `\"header:NAME\"`, `\"claim:NAME\"`, `\"path:NAME\"`; or `[\"shared\"]` alone",
        default: Is("[\"credential\"]"),
        says: "Whose key it is: the Authorization value, a cookie, a header set by a trusted proxy, a claim of a token that `[claims]` believes, a named segment of the path, or everybody.",
    },
    Setting {
        name: "forward_key",
        value: "`\"same\"`, `\"derived\"`, `\"none\"`",
        default: Is("\"same\""),
        says: "The key that goes on to the upstream: the caller's own, one derived from the identity, or none.",
    },
    Setting {
        name: "key.header",
        value: "header name, or a list of them",
        default: Means("`\"Idempotency-Key\"`, if `key.body` is not set"),
        says: "The headers that may carry the key; carriers that disagree are refused.",
    },
    Setting {
        name: "key.body",
        value: "pointer",
        default: Means("none"),
        says: "The place in a JSON body that may carry the key.",
    },
    Setting {
        name: "key.required",
        value: "`true`, `false`",
        default: Is("true"),
        says: "Whether a request without a key is refused.",
    },
    Setting {
        name: "key.syntax",
        value: "`\"lenient\"`, `\"strict\"`",
        default: Is("\"lenient\""),
        says: "Whether the header may also hold a bare value instead of a quoted string (RFC 9651).",
    },
    Setting {
        name: "fingerprint.body",
        value: "`\"auto\"`, `\"json\"`, `\"form\"`, `\"multipart\"`, `\"bytes\"`",
        default: Is("\"auto\""),
        says: "How two bodies are compared; `auto` goes by the content type.",
    },
    Setting {
        name: "fingerprint.ignore",
        value: "list of pointers",
        default: Is("[]"),
        says: "Fields of the body that may differ between attempts.",
    },
    Setting {
        name: "fingerprint.headers",
        value: "list of header names",
        default: Is("[]"),
        says: "Headers that may not differ between attempts.",
    },
    Setting {
        name: "while_running.wait",
        value: "duration",
        default: Is("\"5s\""),
        says: "A duplicate waits this long for the running attempt, then gets 409; `\"0s\"` is no waiting.",
    },
    Setting {
        name: "while_running.busy",
        value: "`true`, instead of `wait`",
        default: Means("not chosen"),
        says: "A duplicate gets 409 at once.",
    },
    Setting {
        name: "while_running.accepted",
        value: "`true`, instead of `wait`",
        default: Means("not chosen"),
        says: "A duplicate gets 202 at once and where to poll.",
    },
    Setting {
        name: "response",
        value: "`\"original\"`, `\"current\"`, `\"status\"`",
        default: Is("\"original\""),
        says: "What a duplicate gets afterwards: the kept answer, the resource read again, or the operation's state.",
    },
    Setting {
        name: "on_stale",
        value: "`\"unknown\"`, `\"reconcile\"`, `\"resume\"`",
        default: Is("\"unknown\""),
        says: "What follows a lease that ended without an outcome: it is unknown until a person, or `reconcile`, settles it; or the request is repeated under the same downstream key.",
    },
    Setting {
        name: "lease",
        value: "duration, at least `1s`",
        default: Is("\"30s\""),
        says: "How long an attempt owns the operation without a sign of life; a live one renews it.",
    },
    Setting {
        name: "remember",
        value: "table of status (`503`) or class (`5xx`) to `\"final\"`, `\"not_done\"`, `\"unknown\"`",
        default: Is("{}"),
        says: "What an upstream's answer means, where it is not the usual; a status beats its class.",
    },
    Setting {
        name: "max_attempts",
        value: "number from 0 to 4294967295",
        default: Is("0"),
        says: "Attempts in all; 0 is no maximum.",
    },
    Setting {
        name: "retry_failed.attempts",
        value: "number from 0 to 100",
        default: Is("0"),
        says: "Further attempts that are made without the caller after one that did nothing.",
    },
    Setting {
        name: "retry_failed.backoff",
        value: "duration above `0s`",
        default: Is("\"1s\""),
        says: "The longest first pause before them; it doubles up to 30s and is cut at random.",
    },
    Setting {
        name: "retention",
        value: "duration, at least `1s`, or `\"forever\"`",
        default: Is("\"7d\""),
        says: "How long a finished record answers duplicates.",
    },
    Setting {
        name: "key_time",
        value: "`\"uuidv7\"`, `\"ulid\"`, `\"off\"`",
        default: Is("\"uuidv7\""),
        says: "Which keys carry a time; a key that says itself that it is older than the retention is answered 410.",
    },
    Setting {
        name: "after_expiry",
        value: "`\"reject\"`, `\"new\"`",
        default: Is("\"reject\""),
        says: "What a request meets after the retention: 410 for 30 more days, or a new operation.",
    },
    Setting {
        name: "store_response.mode",
        value: "`\"full\"`, `\"reference\"`, `\"none\"`",
        default: Is("\"full\""),
        says: "What is kept of the answer: all, status and headers, or nothing.",
    },
    Setting {
        name: "store_response.max",
        value: "size",
        default: Is("\"1MiB\""),
        says: "The longest body that is kept.",
    },
    Setting {
        name: "store_response.redact",
        value: "list of pointers",
        default: Is("[]"),
        says: "Fields removed from the body before it is kept.",
    },
    Setting {
        name: "store_response.drop_headers",
        value: "list of header names",
        default: Is("[]"),
        says: "Headers that are not kept.",
    },
    Setting {
        name: "authorize.url",
        value: "URL",
        default: Means("nobody is asked"),
        says: "Asked by GET, with the caller's `Authorization` and `Cookie` and with `X-Original-Method` and `X-Original-URI`, before a stored answer is given: 2xx gives it, 401 and 403 are passed on, anything else is 503.",
    },
    Setting {
        name: "authorize.timeout",
        value: "duration above `0s`",
        default: Means("`\"5s\"`"),
        says: "How long its answer may take.",
    },
    Setting {
        name: "reconcile.get",
        value: "URL with `{{key}}`, `{{operation_id}}` or `{{downstream_key}}` after its host",
        default: Means("nobody is asked"),
        says: "Asked by GET what became of an attempt whose outcome is unknown. What neither of the next two names is inconclusive.",
    },
    Setting {
        name: "reconcile.happened",
        value: "status (`\"200\"`) or class (`\"2xx\"`), or a list of them",
        default: Means("required with `get`"),
        says: "Answers that say that it happened; a status beats its class.",
    },
    Setting {
        name: "reconcile.did_not_happen",
        value: "the same",
        default: Means("none"),
        says: "Answers that say that it did not happen so far.",
    },
    Setting {
        name: "reconcile.fence",
        value: "`\"tombstoned\"`, `\"same_key\"`, `\"settled\"`",
        default: Means("none: then a person frees the key"),
        says: "Why the request cannot take effect after such an answer: it will be refused, it is one with a retry under the same key, or it has arrived by the end of the window.",
    },
    Setting {
        name: "reconcile.window",
        value: "duration, at least `upstream.timeout`",
        default: Means("required with `fence = \"settled\"`"),
        says: "How long after it was sent a request has certainly been worked off.",
    },
];
