//! The tables of `docs/grpc.md` are those of the code.

use std::path::Path;

use onefold::grpc::Meaning;
use onefold_core::Problem;
use tonic::Code;

#[test]
fn the_tables_of_the_page_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grpc.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let wanted = with(&with(&page, "situations", &situations()), "meanings", &meanings());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "docs/grpc.md is of another table; run this test with UPDATE_DOCS=1");
}

/// The page with this between the mark of that name and its end.
fn with(page: &str, mark: &str, table: &str) -> String {
    let start = page.find(&format!("<!-- {mark}")).expect("the mark is there");
    let begin = start + page[start..].find("-->\n").unwrap() + 4;
    let end = begin + page[begin..].find("<!-- end -->").unwrap();
    format!("{}\n{table}\n{}", &page[..begin], &page[end..])
}

fn situations() -> String {
    let mut table = String::from("| reason | code | `RetryInfo` | why |\n| --- | --- | --- | --- |\n");
    for line in onefold::grpc::situations() {
        let waits = if line.waits { "yes" } else { "–" };
        let (reason, code) = (line.problem.code(), name(line.code));
        table += &format!("| [`{reason}`](errors/{reason}.md) | `{code}` | {waits} | {} |\n", line.why);
    }
    table
}

fn meanings() -> String {
    let mut table = String::from("| code | means | with `RetryInfo` |\n| --- | --- | --- |\n");
    for (code, bare, with_retry_info) in onefold::grpc::meanings() {
        table += &format!("| `{}` | {} | {} |\n", name(code), words(bare), words(with_retry_info));
    }
    table
}

fn words(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Rejected => "rejected",
        Meaning::NotDone => "not done",
        Meaning::Unknown => "unknown",
    }
}

/// The name of a code as gRPC spells it.
fn name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn no_code_of_what_a_new_key_may_double_reads_as_nothing_happened() {
    for line in onefold::grpc::situations() {
        let may_have_happened = matches!(
            line.problem,
            Problem::InProgress | Problem::OutcomeUnknown | Problem::KeyExpired | Problem::ResponseNotKept
        );
        let reads_as_nothing = matches!(
            line.code,
            Code::Aborted | Code::NotFound | Code::InvalidArgument | Code::Cancelled | Code::OutOfRange
        );
        assert!(!(may_have_happened && reads_as_nothing), "{line:?}");
    }
}
