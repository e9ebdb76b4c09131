//! Every chapter of the story, as a test: what is in every database and in the outside world afterwards is what should be
//! there, and nothing else.

use std::path::Path;
use std::time::Duration;

use bfstore::story::CHAPTERS;

/// How long payment is down: long enough for more attempts than there may be, if nothing bounded them.
const DOWN_FOR: Duration = Duration::from_secs(3);

async fn play(name: &str) {
    let chapter = CHAPTERS.iter().find(|chapter| chapter.name == name).expect("there is such a chapter");
    let folder = tempfile::tempdir().unwrap();
    let played = chapter.play(Path::new(env!("CARGO_BIN_EXE_bfstore")), folder.path(), DOWN_FOR).await;
    let played = played.unwrap_or_else(|error| {
        // What the services had to say is the only trace of what went wrong.
        panic!("{error:#}; the files are in {}", folder.keep().display())
    });
    let differences = played.books.differences(chapter.books);
    assert!(differences.is_empty(), "{differences:#?}\nof\n{}", played.books);
}

#[tokio::test]
async fn c01_answer_lost_after_the_commit_is_one_order() {
    play("1").await;
}

#[tokio::test]
async fn c02_eight_submits_at_once_are_one_order() {
    play("2").await;
}

#[tokio::test]
async fn c03_same_checkout_with_another_basket_is_refused() {
    play("3").await;
}

#[tokio::test]
async fn c04_rejection_is_the_same_each_time() {
    play("4").await;
}

#[tokio::test]
async fn c05_capture_whose_answer_was_lost_is_looked_up_and_not_repeated() {
    play("5a").await;
}

#[tokio::test]
async fn c05_capture_that_was_not_found_and_lands_late_is_one_capture() {
    play("5b").await;
}

#[tokio::test]
async fn c05_refused_capture_releases_the_reservation_and_the_order_says_so() {
    play("5c").await;
}

#[tokio::test]
async fn c06_event_whose_consumer_was_killed_is_one_award() {
    play("6").await;
}

#[tokio::test]
async fn c07_two_events_and_a_lost_answer_are_one_mail() {
    play("7").await;
}

#[tokio::test]
async fn c08_stale_product_event_changes_nothing() {
    play("8").await;
}

#[tokio::test]
async fn c09_permitted_build_repairs_what_is_damaged_and_nothing_else() {
    play("9").await;
}

#[tokio::test]
async fn c10_dead_letter_that_nobody_remembers_is_refused_without_a_permit() {
    play("10").await;
}

#[tokio::test]
async fn c11_later_checkout_of_the_same_basket_is_another_order() {
    play("11").await;
}

#[tokio::test]
async fn c12_expired_key_is_refused_and_the_order_protects_without_a_record() {
    play("12").await;
}

#[tokio::test]
async fn c13_payment_that_is_down_is_not_overrun_and_everything_settles() {
    play("13").await;
}

#[tokio::test]
async fn c14_locked_databases_are_asked_again_and_nothing_outside_is_repeated() {
    play("14").await;
}

#[tokio::test]
async fn c15_mark_without_its_effect_is_found_and_named() {
    play("15").await;
}
