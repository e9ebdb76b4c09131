//! `[claims]` and what a scope of claims needs of it.

use super::*;
use crate::{ClaimKey, Claims};

const SECRET: &str = "a secret of exactly 32 bytes long";
const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAul3Xr1JVfqStpFmGamXxRA1fBSaJXXe8ikhAW1DadNM=\n-----END PUBLIC KEY-----";

fn parse(text: &str) -> Result<Settings, String> {
    let body = PEM.lines().nth(1).unwrap();
    let environment = |name: &str| {
        Some(match name {
            "SECRET" => format!(" {SECRET}\n"),
            "PEM" => format!("{PEM}\n"),
            "SHORT" => "x".repeat(31),
            "PRIVATE" => format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"),
            "TWO" => format!("{PEM}\n{PEM}\n"),
            "BARE" => body.to_owned(),
            "BARE_RSA" => format!("MIIBCgKCAQEA{}", "A".repeat(348)),
            "JWK" => format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":{body:?}}}"),
            "SSH" => format!("ssh-ed25519 {body} me@host"),
            _ => return None,
        })
    };
    read(&format!("{UPSTREAM}{text}"), "onefold.toml", &Flags::default(), &environment)
        .map_err(|error| error.to_string())
}

/// The mistakes of a list of one key, which stands in line 4.
fn assert_refused(key: &str, wrong: &str) {
    let error = parse(&format!("[claims]\nkeys = [{key}]\n")).unwrap_err();
    assert_eq!(error, format!("onefold.toml:4: claims.keys[0]: {wrong}"));
}

#[test]
fn tokens_are_believed_under_secrets_and_public_keys_and_neither_is_shown() {
    let text = "[claims]\nkeys = [\"env:SECRET\", \"env:PEM\"]\nissuer = \"https://id.example\"\naudience = \"orders\"\n\
                [[operation]]\nname = \"A\"\nmatch = { method = \"POST\", path = \"/a\" }\nboundary = \"b\"\n\
                scope = [\"claim:https://id.example/tenant\", \"claim:sub\"]\n";
    let settings = parse(text).unwrap();
    let claims = Claims {
        keys: vec![ClaimKey::Secret(SECRET.into()), ClaimKey::Pem(PEM.into())],
        issuer: Some("https://id.example".into()),
        audience: Some("orders".into()),
    };
    assert_eq!(settings.claims, claims);
    let scope = ["https://id.example/tenant", "sub"].map(|name| ScopeSource::Claim(name.into()));
    assert_eq!(settings.operations[0].contract.scope, scope);
    let shown = format!("{settings:?}");
    assert!(shown.contains("[Secret, Pem]") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn what_is_no_key_for_tokens_is_told_without_repeating_it() {
    let pem = "write one PUBLIC KEY or CERTIFICATE in PEM";
    assert_refused("\"hunter2\"", "a secret stays out of the file; write env:NAME or file:PATH");
    assert_refused("7", "a secret stays out of the file; write env:NAME or file:PATH");
    assert_refused("\"env:NONE\"", "the environment has no NONE, or it is not text");
    assert_refused("\"env:SHORT\"", "env:SHORT holds a secret of 31 bytes; at least 32 are allowed");
    assert_refused("\"env:TWO\"", &format!("env:TWO holds 2 blocks of PEM; {pem} for each key"));
    let private = format!("env:PRIVATE holds something in PEM that is no public key; {pem}");
    assert_refused("\"env:PRIVATE\"", &private);
    // As a secret it would let everybody sign who knows it, and everybody does.
    for name in ["BARE", "BARE_RSA", "JWK", "SSH"] {
        let wrong = format!("what env:{name} holds looks like a public key, and not like PEM; {pem}");
        assert_refused(&format!("\"env:{name}\""), &wrong);
    }
}

#[test]
fn a_section_without_keys_is_told_by_line_and_field() {
    for (text, mistake) in [
        ("issuer = \"i\"", "3: claims.keys: required; write keys = [\"env:NAME\"] or [\"file:PATH\"]"),
        ("keys = \"env:SECRET\"", "4: claims.keys: keys are a list; write [\"env:NAME\"] or [\"file:PATH\"]"),
        (
            "keys = []\naudience = \"\"",
            "5: claims.audience: \"\" is not an audience; write one such as orders",
        ),
        (
            "keys = []\nissuer = 7",
            "5: claims.issuer: 7 is not an issuer; write, in quotes, one such as https://id.example",
        ),
        (
            "keys = []\nkey = 1",
            "5: claims.key: unknown setting; did you mean keys? Allowed: keys, issuer, audience",
        ),
    ] {
        assert_eq!(parse(&format!("[claims]\n{text}\n")).unwrap_err(), format!("onefold.toml:{mistake}"));
    }
    let needs =
        "claim:sub counts in a token whose signature verifies, and there is no key; name one in claims.keys";
    let defaults = "[claims]\nkeys = []\n[defaults]\nscope = [\"claim:sub\"]\n";
    assert_eq!(parse(defaults).unwrap_err(), format!("onefold.toml:6: defaults.scope: {needs}"));
    let misread = "[claims]\nkeys = [\"env:NONE\"]\n[defaults]\nscope = [\"claim:sub\"]\n";
    assert!(!parse(misread).unwrap_err().contains("claim:sub"), "one mistake is told once");
}
