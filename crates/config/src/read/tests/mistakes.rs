//! Bad files and the exact text of what is told: file, line, field, what is wrong, what is allowed.

use super::{UPSTREAM, parse};

mod of_operations;

/// `text` starts in line 3, after an upstream. Each mistake starts after `onefold.toml:`.
fn assert_mistakes(text: &str, mistakes: &[&str]) {
    let error = parse(&format!("{UPSTREAM}{text}")).expect_err(text);
    let wanted: Vec<String> = mistakes.iter().map(|mistake| format!("onefold.toml:{mistake}")).collect();
    assert_eq!(error.split('\n').collect::<Vec<_>>(), wanted, "{text}");
}

#[test]
fn every_mistake_of_a_section_is_told_in_its_line() {
    assert_mistakes(
        r#"[server]
listen = "localhost:8080"
admin_listen = 7070
shutdown_grace = 10
trusted_proxies = [
    "10.0.0.0/8",
    "10.0.0.1/8",
    "proxy", 3]
max_request = "10KB"
tls = { cert = "c.pem" }
operations_path = "/"
policy_path = "/{x}"
"#,
        &[
            r#"4: server.listen: "localhost:8080" is not an IP address with a port; write one such as 127.0.0.1:8080, [::1]:8080"#,
            "5: server.admin_listen: 7070 is not an IP address with a port; write, in quotes, one such as 127.0.0.1:8080, [::1]:8080",
            "6: server.shutdown_grace: 10 is not a duration; write, in quotes, one such as 250ms, 30s, 5m, 7d",
            r#"9: server.trusted_proxies[1]: "10.0.0.1/8": write the network of this address, 10.0.0.0/8"#,
            r#"10: server.trusted_proxies[2]: "proxy" is not an IP address or network; write one such as 10.0.0.0/8, 192.0.2.7"#,
            "10: server.trusted_proxies[3]: 3 is not an IP address or network; write, in quotes, one such as 10.0.0.0/8, 192.0.2.7",
            r#"11: server.max_request: "10KB" is not a size; write one such as 64KiB, 1MiB, or a number of bytes"#,
            r#"12: server.tls.key: required; write key = "key.pem""#,
            r#"13: server.operations_path: "/" is not a literal path beneath /; write one such as /operations"#,
            r#"14: server.policy_path: "/{x}" is not a literal path beneath /; write one such as /operations"#,
        ],
    );
    assert_mistakes(
        r#"[store]
url = "redis://cache"
migrate = "yes"
sweep_every = "0s"
[limits]
live_keys_per_scope = 0
waiters = -1
waiters_per_key = 1.5
[server]
max_request = 0
tls = true
"#,
        &[
            r#"4: store.url: there is no store of the kind "redis"; allowed: sqlite:PATH, such as sqlite:onefold.db, or postgres://USER:PASSWORD@HOST:PORT/DATABASE"#,
            r#"5: store.migrate: "yes" is neither true nor false; write one of them without quotes"#,
            r#"6: store.sweep_every: "0s": it must be more than 0s"#,
            "8: limits.live_keys_per_scope: 0 is not a number that is allowed; write one from 1 to 1000000000 without quotes",
            "9: limits.waiters: -1 is not a number that is allowed; write one from 0 to 1000000 without quotes",
            "10: limits.waiters_per_key: 1.5 is not a number that is allowed; write one from 0 to 1000000 without quotes",
            "12: server.max_request: 0 is too small; the smallest size is 1",
            "13: server.tls: true is not a table; write one with cert, key",
        ],
    );
}

#[test]
fn what_is_no_setting_is_told_with_the_nearest_and_with_all_that_are() {
    assert_mistakes(
        "urll = 1\n[server]\n\"a\\nb\" = 1\n[limit]\nwaiters = 1\n[cache]\n",
        &[
            "3: upstream.urll: unknown setting; did you mean url? Allowed: url, timeout",
            "5: server.\"a\\nb\": unknown setting; allowed: listen, admin_listen, shutdown_grace, trusted_proxies, \
             max_request, tls, operations_path, policy_path",
            "6: limit: unknown setting; did you mean limits? Allowed: server, store, limits, upstream, claims, \
             operation, defaults, inbox, destination, encryption",
            "8: cache: unknown setting; allowed: server, store, limits, upstream, claims, operation, defaults, inbox, destination, encryption",
        ],
    );
}

#[test]
fn what_a_later_release_reads_is_not_called_unknown() {
    assert_mistakes(
        "[admin]\ntokens_file = \"x\"\n[defaults]\nsubject = \"/a\"\non_stale = \"reconcil\"\n",
        &[
            "3: admin: not available in this release",
            "6: defaults.subject: not available in this release",
            "7: defaults.on_stale: \"reconcil\" is not allowed; allowed: \"unknown\", \"reconcile\", \"resume\"",
        ],
    );
}

#[test]
fn address_of_a_database_is_not_repeated_with_its_password() {
    assert_mistakes(
        "[store]\nurl = \"postgres://me:hunter2@db\"\n",
        &[
            "4: store.url: a PostgreSQL store names user, host and database; allowed: sqlite:PATH, such as sqlite:onefold.db, or postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        ],
    );
}

#[test]
fn text_that_is_not_toml_is_told_alone() {
    assert_mistakes(
        "[server]\nlisten = \"a\nlissen = 3\n",
        &["4: not valid TOML: invalid basic string, expected `\"`"],
    );
    assert_mistakes("[server]\nlissen = 1\n[server]\n", &["5: not valid TOML: duplicate key"]);
}

#[test]
fn an_upstream_is_required_and_is_not_the_gateway() {
    let required = "upstream.url: required; write url = \"http://127.0.0.1:3000\" or give --upstream";
    assert_eq!(parse("").unwrap_err(), format!("onefold.toml: {required}"));
    assert_eq!(parse("\n[upstream]\ntimeout = \"1s\"\n").unwrap_err(), format!("onefold.toml:2: {required}"));
    assert_eq!(
        parse("upstream = \"http://h\"").unwrap_err(),
        "onefold.toml:1: upstream: \"http://h\" is not a table; write one with url, timeout"
    );
    assert_eq!(
        parse("[upstream]\nurl = \"http://me:hunter2@h\"").unwrap_err(),
        "onefold.toml:2: upstream.url: a URL here has no user or password; write http or https, a host and perhaps \
         a path, such as http://127.0.0.1:3000"
    );
    let itself =
        "this is server.listen: the gateway would call itself; write the address of the service behind it";
    for listen in ["127.0.0.1:3000", "0.0.0.0:3000", "[::]:3000"] {
        assert_mistakes(
            &format!("[server]\nlisten = \"{listen}\"\n"),
            &[&format!("2: upstream.url: {itself}")],
        );
    }
    let by_name = "[upstream]\nurl = \"http://localhost:8080/api\"";
    assert_eq!(parse(by_name).unwrap_err(), format!("onefold.toml:2: upstream.url: {itself}"));
}

#[test]
fn the_admin_listener_stays_on_loopback_and_off_the_other_listener() {
    let no_roles =
        "is refused: the admin listener has no roles yet; listen on loopback, such as 127.0.0.1:7070";
    for address in ["0.0.0.0:7070", "[::]:7070", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
        let text = format!("[server]\nadmin_listen = \"{address}\"\n");
        assert_mistakes(&text, &[&format!("4: server.admin_listen: {address} {no_roles}")]);
    }
    assert_mistakes(
        "[server]\nlisten = \"127.0.0.1:7\"\nadmin_listen = \"127.0.0.1:7\"\n",
        &["5: server.admin_listen: 127.0.0.1:7 is taken by server.listen, 127.0.0.1:7; write another port"],
    );
    assert_mistakes(
        "[server]\nlisten = \"0.0.0.0:7070\"\n",
        &["4: server.listen: 0.0.0.0:7070 takes server.admin_listen, 127.0.0.1:7070; write another port"],
    );
    let any_port = "[server]\nlisten = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:0\"\n";
    assert!(parse(&format!("{UPSTREAM}{any_port}")).is_ok());
}

#[test]
fn the_gateways_own_paths_do_not_hide_each_other() {
    assert_mistakes(
        "[server]\noperations_path = \"/ops\"\npolicy_path = \"/ops/policy\"\n",
        &["5: server.policy_path: /ops and /ops/policy lie one within the other; write two that do not"],
    );
    assert_mistakes(
        "[server]\noperations_path = \"/.well-known\"\n",
        &[
            "4: server.operations_path: /.well-known and /.well-known/idempotency lie one within the other; write two that do not",
        ],
    );
}

#[test]
fn a_mistake_in_a_secret_never_repeats_it() {
    assert_mistakes(
        "[encryption]\nkeys = [\"hunter2\", \"env:NONE\", \"env:SHORT_KEY\", \"env:BAD_KEY\", 7]\n",
        &[
            "4: encryption.keys[0]: a secret stays out of the file; write env:NAME or file:PATH",
            "4: encryption.keys[1]: the environment has no NONE, or it is not text",
            "4: encryption.keys[2]: env:SHORT_KEY holds 5 bytes; 32 bytes in base64 are allowed",
            "4: encryption.keys[3]: what env:BAD_KEY holds is not base64; 32 bytes in base64 are allowed",
            "4: encryption.keys[4]: a secret stays out of the file; write env:NAME or file:PATH",
        ],
    );
    let one = "[encryption]\nkeys = \"env:KEY\"\n";
    assert_mistakes(one, &["4: encryption.keys: keys are a list; write [\"env:NAME\"] or [\"file:PATH\"]"]);
}
