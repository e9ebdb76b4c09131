//! One path in several spellings, which servers take for the same: it is one operation, and no spelling goes around
//! the protection. Dot segments, slashes and parameters stand in `fingerprints.rs`.

use onefold_e2e::{assert_fresh, assert_problem, assert_replay};
use onefold_testkit::{Request, Setup, Upstream};

/// Spellings of one path each; the last of them is raw UTF-8.
const SPELLINGS: [[&str; 2]; 6] = [
    ["/orders:create", "/orders%3Acreate"],
    ["/mail/a@b", "/mail/a%40b"],
    ["/a,b'c", "/a%2Cb%27c"],
    ["/a|b", "/a%7cb"],
    ["/%C3%BC", "/%c3%bc"],
    ["/gr%C3%B6%C3%9Fe", "/größe"],
];

fn to(target: &str) -> Request {
    Request::post(target).bearer("alice").json("{}")
}

#[tokio::test]
async fn two_spellings_of_a_path_are_one_operation_without_configuration() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    for [one, other] in SPELLINGS {
        let first = gateway.send(&to(one).key("k-1")).await;
        assert_fresh(&first, 200);
        let second = gateway.send(&to(other).key("k-1")).await;
        assert!(second.is_replay(), "{one} and {other}: {second}");
        assert_replay(&second, &first);
    }
    assert_eq!(upstream.total(), 6);
}

#[tokio::test]
async fn encoded_spelling_of_a_configured_path_is_protected() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream.url())
        .operation("CancelOrders", "POST", "/v1/orders:cancel", "")
        .operation("InviteUser", "POST", "/v1/{user}/invite@", "")
        .operation("Rename", "POST", "/v1/größe", "");
    let gateway = setup.start().await;
    for spelling in [
        "/v1/orders:cancel",
        "/v1/orders%3Acancel",
        "/v1/orders%3acancel",
        "/v1/7/invite%40",
        "/v1/gr%c3%b6%C3%9fe",
    ] {
        assert_problem(&gateway.send(&to(spelling)).await, 400, "key-missing");
    }
    let first = gateway.send(&to("/v1/orders:cancel").key("k-1")).await;
    assert_replay(&gateway.send(&to("/v1/orders%3Acancel").key("k-1")).await, &first);
    assert_eq!(upstream.total(), 1);
}

#[tokio::test]
async fn encoded_spelling_in_the_configuration_is_the_same_path() {
    let upstream = Upstream::start().await;
    let gateway =
        Setup::new(&upstream.url()).operation("Cancel", "POST", "/v1/orders%3Acancel", "").start().await;
    assert_problem(&gateway.send(&to("/v1/orders:cancel")).await, 400, "key-missing");
}

#[tokio::test]
async fn what_servers_tell_apart_stays_apart() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    for target in ["/a/b", "/a%2Fb", "/A/b", "/a%3Bb", "/a"] {
        assert_fresh(&gateway.send(&to(target).key("k-1")).await, 200);
    }
    assert_eq!(upstream.total(), 5);
}
