//! The page that users read says what the code does: the table of the five questions, and every problem's page.

use std::fs;
use std::path::{Path, PathBuf};

use onefold_core::{Answers, Problem, State};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn row(name: &str, answers: Answers) -> String {
    let yes = |truth| if truth { "yes" } else { "no" };
    format!(
        "| {name} | {} | {} | {} | {} | {} |",
        answers.new_attempt,
        yes(answers.previous_result),
        yes(answers.wait),
        yes(answers.reconciliation),
        answers.new_key,
    )
}

#[test]
fn the_table_of_the_five_questions_is_that_of_the_code() {
    let page = fs::read_to_string(docs().join("semantics.md")).unwrap();
    let rows = [
        row("received", State::Received.answers(false, false, false)),
        row("processing, lease alive", State::Processing.answers(true, false, false)),
        row("processing, lease over", State::Processing.answers(false, false, false)),
        row(
            "processing, lease over, `on_stale = \"reconcile\"`",
            State::Processing.answers(false, false, true),
        ),
        row("succeeded", State::Succeeded.answers(false, false, false)),
        row("rejected", State::Rejected.answers(false, false, false)),
        row("failed", State::Failed.answers(false, false, false)),
        row("failed, attempts exhausted", State::Failed.answers(false, true, false)),
        row("outcome_unknown", State::OutcomeUnknown.answers(false, false, false)),
        row("outcome_unknown, with `reconcile`", State::OutcomeUnknown.answers(false, false, true)),
    ];
    for row in &rows {
        assert!(page.lines().any(|line| line == row), "docs/semantics.md lacks the row\n{row}");
    }
}

#[test]
fn every_problem_has_a_page_that_names_its_status() {
    for problem in Problem::ALL {
        let path = docs().join("errors").join(format!("{}.md", problem.code()));
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page.contains(&problem.status().to_string()),
            "{} lacks {}",
            path.display(),
            problem.status()
        );
    }
}
