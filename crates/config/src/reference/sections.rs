//! The sections of the gateway as a whole, and the page's introduction.

use super::Preset::{Is, Means, Required};
use super::Repeats::{Often, Once};
use super::{Section, Setting, destination, inbox, operation};

pub(super) const INTRODUCTION: &str = "\
# Configuration

<!-- Written by the tests of crates/config from its table of settings: UPDATE_DOCS=1 cargo test -p onefold-config -->

`onefold.toml` is TOML. What is wrong in it is told all at once, with file, line, field and what is allowed; a name
that is not on this page is an error. Only an upstream must be named, by `upstream.url` or by a flag; not in the file of
a relay, which has destinations. The flags `--upstream`, `--listen`, `--admin-listen` and `--store` (or `ONEFOLD_STORE`)
overrule the file. Relative paths start at the working directory.

| kind of value | how it is written |
| --- | --- |
| duration | a string of a whole number and `ms`, `s`, `m`, `h` or `d`: `\"250ms\"`, `\"30s\"`, `\"5m\"`, `\"7d\"`; at most `\"36500d\"` |
| size | a whole number of bytes, or a string with `KiB`, `MiB` or `GiB`: `65536`, `\"64KiB\"`, `\"1MiB\"` |
| address | a string of an IP address with a port: `\"127.0.0.1:8080\"`, `\"[::1]:8080\"` |
| pointer | a string with a JSON pointer (RFC 6901), `\"/items/0/price\"`; in a form or multipart body `\"/name\"` is a field |
| secret | `\"env:NAME\"`, an environment variable, or `\"file:PATH\"`, the contents of a file; white space around it does not count |
";

pub(super) const ALL: &[Section] = &[
    Section { name: "server", repeats: Once, says: "The listeners.", settings: SERVER },
    Section {
        name: "store",
        repeats: Once,
        says: "Where the records are. A store that cannot be reached stops every protected request; nothing falls back to memory.",
        settings: STORE,
    },
    Section { name: "limits", repeats: Once, says: "What is bounded.", settings: LIMITS },
    Section { name: "upstream", repeats: Once, says: "The service behind the gateway.", settings: UPSTREAM },
    Section {
        name: "claims",
        repeats: Once,
        says: "Which JSON Web Tokens of callers are believed, for `claim:NAME` in a `scope`: those whose signature \
               verifies under one of the keys, and that are within `exp` and `nbf`, give or take a minute. A secret \
               verifies HS256, HS384 and HS512 alone; a public key only what is of its kind: RS and PS (RSA of 2048 \
               to 8192 bits), ES256 (P-256), ES384 (P-384), EdDSA (Ed25519). All keys are taken for one issuer's: \
               where several sign, put `claim:iss` into the scope too.",
        settings: CLAIMS,
    },
    Section { name: "operation", repeats: Often, says: operation::SAYS, settings: operation::SETTINGS },
    Section {
        name: "defaults",
        repeats: Once,
        says: "Any setting of `[[operation]]` but `name` and `match`: it holds for every operation that does not say \
               otherwise, and for operations that no `[[operation]]` names. What an operation says replaces the \
               setting as a whole: a table there is not mixed with the table here.",
        settings: &[],
    },
    Section { name: "inbox", repeats: Often, says: inbox::SAYS, settings: inbox::SETTINGS },
    Section { name: "destination", repeats: Often, says: destination::SAYS, settings: destination::SETTINGS },
    Section {
        name: "encryption",
        repeats: Once,
        says: "Payloads at rest are encrypted as soon as there is a key.",
        settings: ENCRYPTION,
    },
];

const SERVER: &[Setting] = &[
    Setting {
        name: "listen",
        value: "address",
        default: Is("\"127.0.0.1:8080\""),
        says: "Where callers connect.",
    },
    Setting {
        name: "admin_listen",
        value: "address on loopback",
        default: Is("\"127.0.0.1:7070\""),
        says: "Where operators and monitoring connect.",
    },
    Setting {
        name: "shutdown_grace",
        value: "duration",
        default: Is("\"10s\""),
        says: "How long what runs may go on after SIGTERM; what is still running then is marked unknown.",
    },
    Setting {
        name: "trusted_proxies",
        value: "list of IP addresses and networks, such as `[\"10.0.0.0/8\", \"192.0.2.7\"]`",
        default: Is("[]"),
        says: "Who may set forwarded and tenant headers; by default nobody.",
    },
    Setting {
        name: "max_request",
        value: "size, at least 1 byte",
        default: Is("\"64MiB\""),
        says: "The longest protected request; a longer one is answered 413 and does not reach the upstream.",
    },
    Setting {
        name: "tls.cert",
        value: "path of a PEM file",
        default: Means("none; required with `tls.key`"),
        says: "The certificate of `listen`, with its chain; without `tls` callers connect in plain text.",
    },
    Setting {
        name: "tls.key",
        value: "path of a PEM file",
        default: Means("none; required with `tls.cert`"),
        says: "The private key of that certificate.",
    },
    Setting {
        name: "operations_path",
        value: "literal path",
        default: Is("\"/operations\""),
        says: "Where callers poll an operation, moved where it collides with the upstream.",
    },
    Setting {
        name: "policy_path",
        value: "literal path",
        default: Is("\"/.well-known/idempotency\""),
        says: "Where the contracts are published, moved where it collides with the upstream.",
    },
];

const STORE: &[Setting] = &[
    Setting {
        name: "url",
        value: "`\"sqlite:PATH\"`, `\"postgres://USER:PASSWORD@HOST:PORT/DATABASE\"`",
        default: Is("\"sqlite:onefold.db\""),
        says: "The store: a file of this host, or a PostgreSQL database for any number of gateways ([more](operating.md#postgresql)). `ONEFOLD_STORE` keeps a password out of the file.",
    },
    Setting {
        name: "migrate",
        value: "`true`, `false`",
        default: Is("true"),
        says: "Whether `serve` brings an older store up to date; if not, it stops with 69 and says which command to run.",
    },
    Setting {
        name: "sweep_every",
        value: "duration above `0s`",
        default: Is("\"60s\""),
        says: "The pause between two sweeps of what has expired.",
    },
];

const LIMITS: &[Setting] = &[
    Setting {
        name: "live_keys_per_scope",
        value: "number from 1 to 1000000000",
        default: Is("100000"),
        says: "Records of one scope that have not expired; one more is answered 429.",
    },
    Setting {
        name: "waiters_per_key",
        value: "number from 0 to 1000000",
        default: Is("100"),
        says: "Duplicates that wait for one running operation; the rest get 409 at once.",
    },
    Setting {
        name: "waiters",
        value: "number from 0 to 1000000",
        default: Is("10000"),
        says: "Duplicates that wait in all; the rest get 409 at once.",
    },
];

const UPSTREAM: &[Setting] = &[
    Setting {
        name: "url",
        value: "URL of `http` or `https` with a host and perhaps a path",
        default: Required,
        says: "Where requests go on to; a path is put in front of every request's own.",
    },
    Setting {
        name: "timeout",
        value: "duration above `0s`",
        default: Is("\"30s\""),
        says: "How long an answer may take; the outcome of a request without answer is unknown.",
    },
];

const CLAIMS: &[Setting] = &[
    Setting {
        name: "keys",
        value: "list of secrets, each a text of at least 32 bytes, or one `PUBLIC KEY` or `CERTIFICATE` in PEM",
        default: Is("[]"),
        says: "Any of them may verify, so that keys can change. A secret is taken as it stands, not decoded. Of a \
               certificate only the public key counts, not its dates or who issued it.",
    },
    Setting {
        name: "issuer",
        value: "string",
        default: Means("none: `iss` is not looked at"),
        says: "What `iss` must be.",
    },
    Setting {
        name: "audience",
        value: "string",
        default: Means("none: `aud` is not looked at"),
        says: "What `aud` must be, or have among its names.",
    },
];

const ENCRYPTION: &[Setting] = &[Setting {
    name: "keys",
    value: "list of secrets, each 32 bytes in base64",
    default: Is("[]"),
    says: "The first key writes, all of them read: put a new one in front to change it.",
}];
