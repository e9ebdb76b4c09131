//! The patterns that match, that cannot be written, and that leave nothing for a later one.

use super::*;

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

#[test]
fn named_segments_take_their_value_and_literal_ones_only_themselves() {
    let ship = pattern("/orders/{order}/items/{item}/ship");
    let values = ship.matches("/orders/5001/items/7/ship");
    assert_eq!(values, Some(vec![("order", "5001"), ("item", "7")]));
    for other in ["/orders/5001/items/7", "/orders/5001/items/7/ship/x", "/orders//items/7/ship", "/", ""] {
        assert_eq!(ship.matches(other), None, "{other}");
    }
    assert_eq!(pattern("/orders").matches("/orders"), Some(vec![]));
    assert_eq!(pattern("/orders").matches("/Orders"), None, "paths tell letters apart");
    assert_eq!(pattern("/").matches("/"), Some(vec![]));
    assert_eq!(pattern("/").matches("/x"), None);
    assert_eq!(pattern("/{x}").matches("/"), None);
    assert_eq!(pattern("/orders").matches("orders"), None);
}

#[test]
fn a_pattern_is_normalized_like_the_paths_that_it_meets() {
    for (written, normal) in [
        ("/orders/", "/orders"),
        ("/%6Frders/%c3%bc", "/orders/%C3%BC"),
        ("/bücher/a b", "/b%C3%BCcher/a%20b"),
        ("/a%2Fb/x:y@z", "/a%2Fb/x:y@z"),
        ("/", "/"),
    ] {
        assert_eq!(pattern(written).to_string(), normal);
        assert!(pattern(written).matches(normal).is_some(), "{written}");
    }
}

#[test]
fn a_pattern_that_could_never_match_is_refused() {
    for bad in [
        "orders",
        "",
        "//",
        "/a//b",
        "/a/../b",
        "/a/%2e%2E",
        "/a?x=1",
        "/a;v=1",
        "/a#x",
        "/{id",
        "/id}",
        "/a{id}",
        "/{}",
        "/{a-b}",
        "/{1a}",
        "/{id}/{id}",
        "/%",
        "/%4",
        "/%zz",
    ] {
        assert!(PathPattern::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_pattern_covers_another_when_it_leaves_no_path_to_it() {
    assert!(pattern("/orders/{id}").covers(&pattern("/orders/{other}")));
    assert!(pattern("/orders/{id}").covers(&pattern("/orders/new")));
    assert!(!pattern("/orders/new").covers(&pattern("/orders/{id}")));
    assert!(!pattern("/orders/{id}").covers(&pattern("/orders")));
    assert!(!pattern("/{a}/x").covers(&pattern("/orders/{b}")));
}

#[test]
fn a_pattern_reaches_the_paths_beneath_a_prefix() {
    assert!(pattern("/operations").reaches("/operations"));
    assert!(pattern("/operations/{id}").reaches("/operations"));
    assert!(!pattern("/operations-old").reaches("/operations"));
    assert!(!pattern("/{any}").reaches("/operations"));
}
