//! The shipped profiles, profiles of one's own, and what fits.

use super::*;

#[test]
fn every_shipped_profile_can_be_read_and_names_its_source() {
    for name in Profile::names() {
        let profile = Profile::shipped(name).unwrap();
        assert_eq!(profile.name, name);
        assert!(profile.source.len() > 10, "{name}");
        let fits = profile.carrier.is_none() || profile.fit(&OperationKey::generate()).is_ok();
        assert!(fits, "{name} takes no UUID");
    }
}

#[test]
fn a_key_is_sent_as_the_provider_wants_it_and_never_cut() {
    let key = OperationKey::business("checkout-7f82").unwrap();
    let sent = |name: &str| Profile::shipped(name).unwrap().fit(&key).unwrap();
    assert_eq!(sent("onefold"), "\"checkout-7f82\"");
    assert_eq!(sent("stripe"), "checkout-7f82");
    let long = OperationKey::business("k".repeat(46)).unwrap();
    let square = Profile::shipped("square").unwrap();
    assert!(matches!(square.fit(&long), Err(DoesNotFit::TooLong { bytes: 46, bytes_max: 45, .. })));
    assert!(matches!(
        Profile::shipped("stripe").unwrap().fit(&OperationKey::business("größer").unwrap()),
        Err(DoesNotFit::Characters { .. })
    ));
    assert_eq!(
        Profile::onefold().fit(&OperationKey::business("a \"b\"").unwrap()).unwrap(),
        "\"a \\\"b\\\"\""
    );
}

#[test]
fn alphabets_hold_what_they_name() {
    let uuid = "0190163d-8694-739b-aea5-966c26f8ad91";
    for (alphabet, allowed, not) in [
        (Alphabet::Visible, "a-Z~!", "a b"),
        (Alphabet::Alphanumeric, "aZ9", "a-Z"),
        (Alphabet::Hex, "09af", "AF"),
        (Alphabet::Digits, "0189", "1a"),
        (Alphabet::Uuid, uuid, "0190163d8694739baea5966c26f8ad91"),
    ] {
        assert!(alphabet.allows(allowed) && !alphabet.allows(not), "{alphabet:?}");
    }
}

#[test]
fn what_is_wrong_in_a_profile_is_an_error_that_names_it() {
    let wrong = |lines: &str| {
        let text = format!("name = \"p\"\nsource = \"s\"\n{lines}");
        Profile::from_toml(&text).unwrap_err().to_string()
    };
    let key = "key = { header = \"k\", max = 9 }\n";
    for (lines, named) in [
        ("key = \"some\"", "\"some\""),
        ("key = { header = \"a b\", max = 9 }", "key.header"),
        ("key = { header = \"k\", max = 9, colour = 1 }", "key"),
        (&format!("{key}colour = 1"), "colour"),
        (&format!("{key}window = \"1 day\""), "window"),
        (&format!("{key}window = \"0s\""), "window"),
        (&format!("{key}[[answer]]\nmeans = \"conflict\""), "answer"),
        (&format!("{key}[[answer]]\nstatus = \"6xx\"\nmeans = \"conflict\""), "answer.status"),
        (&format!("{key}[[answer]]\nstatus = \"409\"\nmeans = \"perhaps\""), "perhaps"),
    ] {
        let error = wrong(lines);
        assert!(error.contains(named), "{lines}: {error}");
    }
}
