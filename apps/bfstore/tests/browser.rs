//! The storefront's page in a real browser: whatever a person does to a checkout, it is one order in the database.
//!
//! Screenshots are in the folder for files of integration tests (`target/tmp`), for whoever changes the page.

use std::path::Path;
use std::time::Duration;

use bfstore::ledgers::Ledgers;
use bfstore::stage::{Lines, Set, Stage};
use fantoccini::actions::{InputSource, MOUSE_BUTTON_LEFT, MouseActions, PointerAction};
use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use onefold_testkit::{Browser, TestDirectory, wait};

/// A shop with its page open.
struct Visit {
    stage: Stage,
    ledgers: Ledgers,
    page: Client,
    /// Dropped after the session has ended.
    _browser: Browser,
    directory: TestDirectory,
}

impl Visit {
    async fn begin(what: &str) -> Option<Visit> {
        let directory = TestDirectory::create();
        let browser = Browser::start(what, &directory)?;
        let binary = Path::new(env!("CARGO_BIN_EXE_bfstore"));
        let set = Set { lines: Lines::CanLose, ..Set::default() };
        let stage = Stage::start(binary, directory.path(), set).await.unwrap();
        let ledgers = Ledgers::at(stage.ground(), stage.folder()).await.unwrap();
        let mut session = ClientBuilder::new(HttpConnector::new());
        let page = session.capabilities(browser.capabilities()).connect(browser.url()).await.unwrap();
        page.set_window_rect(0, 0, 800, 900).await.unwrap();
        page.goto(stage.url("storefront")).await.unwrap();
        Some(Visit { stage, ledgers, page, _browser: browser, directory })
    }

    async fn button(&self) -> Element {
        self.page.find(Locator::Id("buy")).await.unwrap()
    }

    /// Waits until the page says this of the order.
    async fn says(&self, what: &str) {
        wait::until_within(Duration::from_secs(30), what, async || {
            let Ok(order) = self.page.find(Locator::Id("order")).await else { return false };
            order.text().await.is_ok_and(|text| text.contains(what))
        })
        .await;
    }

    async fn orders(&self) -> Vec<String> {
        let sql = "SELECT order_id, customer_id, product, quantity, cents, status FROM orders";
        self.ledgers.ask("order", sql).await.unwrap()
    }

    async fn screenshot(&self, name: &str) {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("storefront-{name}.png"));
        std::fs::write(file, self.page.screenshot().await.unwrap()).unwrap();
    }

    async fn end(self) {
        self.page.close().await.unwrap();
        self.stage.end().await;
        drop(self.directory);
    }
}

const ONE: [&str; 1] = ["1 ann lamp 1 2500 confirmed"];

#[tokio::test]
async fn double_click_is_one_order() {
    let Some(visit) = Visit::begin("a double click in a browser").await else { return };
    visit.screenshot("1-opened").await;
    let there =
        PointerAction::MoveToElement { element: visit.button().await, duration: None, x: 0.0, y: 0.0 };
    let down = PointerAction::Down { button: MOUSE_BUTTON_LEFT };
    let up = PointerAction::Up { button: MOUSE_BUTTON_LEFT };
    let mouse = MouseActions::new("mouse".into()).then(there);
    let twice = mouse.then(down.clone()).then(up.clone()).then(down).then(up);
    visit.page.perform_actions(twice).await.unwrap();
    visit.says("Order 1: confirmed").await;
    visit.screenshot("2-confirmed").await;
    assert_eq!(visit.orders().await, ONE);
    visit.end().await;
}

#[tokio::test]
async fn checkout_that_is_come_back_to_by_the_back_button_is_the_same_order() {
    let Some(visit) = Visit::begin("the back button of a browser").await else { return };
    let first = visit.page.current_url().await.unwrap();
    visit.button().await.click().await.unwrap();
    visit.says("Order 1: confirmed").await;
    visit.page.find(Locator::Id("another")).await.unwrap().click().await.unwrap();
    let url = async || visit.page.current_url().await.is_ok_and(|url| url != first);
    wait::until_within(Duration::from_secs(30), "another checkout is begun", url).await;

    visit.page.back().await.unwrap();
    assert_eq!(visit.page.current_url().await.unwrap(), first);
    visit.button().await.click().await.unwrap();
    visit.says("Order 1: confirmed").await;
    visit.page.set_window_rect(0, 0, 500, 800).await.unwrap();
    visit.screenshot("3-back-in-a-narrow-window").await;
    assert_eq!(visit.orders().await, ONE);
    visit.end().await;
}

#[tokio::test]
async fn reload_while_the_answer_is_lost_shows_the_one_order() {
    let Some(visit) = Visit::begin("a reload in a browser").await else { return };
    let line = visit.stage.line("storefront");
    // A browser tries again by itself where it may, so one lost answer would not do.
    line.lose_answers();
    visit.button().await.click().await.unwrap();
    visit.says("No answer came").await;
    visit.screenshot("4-answer-lost").await;
    assert!(line.lost() > 0, "no answer was lost");
    line.mend();
    visit.page.refresh().await.unwrap();
    visit.says("Order 1: confirmed").await;
    visit.button().await.click().await.unwrap();
    visit.says("Order 1: confirmed").await;
    visit.screenshot("5-reloaded").await;
    assert_eq!(visit.orders().await, ONE);
    visit.end().await;
}
