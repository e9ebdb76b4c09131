//! Digests of version 1, as they are stored in records: a release that changes one must raise `CANON_VERSION`, or
//! it would refuse the retries of requests that an older release has taken.

mod support;

use onefold_canon::{BodyKind, CANON_VERSION, Compared};
use support::digest;

fn assert_digest(kind: BodyKind, body: &str, form: Compared, expected: &str) {
    let found = digest(kind, &[], body);
    let hexadecimal: String = found.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!((found.form, hexadecimal.as_str()), (form, expected), "{:?}", &body[..body.len().min(60)]);
}

#[test]
fn digests_of_version_1_stay_what_they_are() {
    assert_eq!(CANON_VERSION, 1);
    let json = |body: &str, expected| assert_digest(BodyKind::Json, body, Compared::Json, expected);
    json("null", "dcdadf8f4bc00e290d5c5cc193aefeebdd33ec8bda5602fb3cb33ecf26313f0a");
    json(
        r#"{"b":[1.50,-2e-3,true,false,null,"é"],"a":{"x":""}}"#,
        "f68a8a7ff4408b5cec166fce0ca759a238f8208be464856c0a4be50f652b6a72",
    );
    json(
        &format!(
            r#"{{"{0}":"{0}","n":[{1}]}}"#,
            "x".repeat(5000),
            "9,".repeat(5000) + "1e99999999999999999999"
        ),
        "b46029f7a74119b3bd50d4e4cb72703e6ada7c51dcde8744938fe4f634783ca4",
    );
    assert_digest(
        BodyKind::Json,
        r#"{"a":1,"a":2}"#,
        Compared::Bytes,
        "82dd79ec0f2d928e6dd497ff3d7a9c50ef3bca02b5aabc01df294810f35d9f5d",
    );
    assert_digest(
        BodyKind::Bytes,
        "",
        Compared::Bytes,
        "c5219c903b3cf3fd79df3c7a84c9877596210702d24a5eaf9faa57dbb5b113ad",
    );
    assert_digest(
        BodyKind::Form,
        "b=1&a=x+y&b=%FF&c&d=",
        Compared::Form,
        "80ba6955d0dc65b9f2d6ff54a31980066a195c3f4047d1c7441046c96e767b2a",
    );
    let multipart = "--B\r\nContent-Disposition: form-data; name=a; filename=f\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--";
    let kind = BodyKind::Multipart { boundary: "B".to_owned() };
    assert_digest(
        kind,
        multipart,
        Compared::Multipart,
        "f3da5ea0665258fd557179aa31077bef88c31c0f900ccd8df71dd7b8d6d9790b",
    );
}
