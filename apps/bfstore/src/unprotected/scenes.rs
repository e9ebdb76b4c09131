//! The scenes, one for each protection: what happens, and what comes of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use onefold::messages::{Sending, Sink};
use onefold::webhooks::{HttpSink, KeyForm, Secret};
use tonic::Code;

use super::Shown;
use crate::events::Event;
use crate::ground::Ground;
use crate::outside::Fault;
use crate::safeguard::Safeguard;
use crate::stage::{Answer, Backend, Balance, Delivery, Lines, Set, Stage};
use crate::story::Books;
use crate::story::FORGET;
use crate::story::play::Play;
use crate::story::shopper::Got;

/// What is done, and what comes of it with the protection and without it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// What is taken away.
    pub protection: Safeguard,
    /// In words.
    pub happens: &'static str,
    /// What is counted.
    pub effect: &'static str,
    /// With the protection.
    pub once: &'static str,
    /// Without it.
    pub doubled: &'static str,
}

impl Scene {
    /// The one that this protection is made for.
    pub fn of(protection: Safeguard) -> Scene {
        let scene = |happens, effect| Scene { protection, happens, effect, once: "1", doubled: "2" };
        match protection {
            Safeguard::CheckoutKey => scene("the answer is lost, and the button pressed again", "orders"),
            Safeguard::UniqueColumn => {
                scene("pressed again when the record of the operation is gone", "orders")
            }
            Safeguard::ReservationKey => {
                scene("reserved, but the workflow is told of an error and starts again", "reservations")
            }
            Safeguard::ProviderKey => scene("captured, the answer is lost", "captures"),
            Safeguard::Fence => scene("not found at the provider, and lands afterwards", "captures"),
            Safeguard::InboxMark => {
                let scene = scene("an event comes again: the answer to it was lost", "requests noted");
                // Two events ask for the mail.
                Scene { once: "2", doubled: "3", ..scene }
            }
            Safeguard::MailKey => scene("two events ask for one mail", "mails"),
            Safeguard::PointsKey => scene("an event is sent again by hand, with another id", "awards"),
            Safeguard::NewerPrice => {
                let scene = scene("an old price comes after a new one", "cents");
                Scene { once: "2700", doubled: "2600", ..scene }
            }
        }
    }

    /// Plays it twice.
    pub async fn play(&self, binary: &Path, ground: &Ground) -> anyhow::Result<Shown> {
        Ok(Shown {
            with: self.on_a_stage(binary, ground, None).await?,
            without: self.on_a_stage(binary, ground, Some(self.protection)).await?,
        })
    }

    async fn on_a_stage(
        &self,
        binary: &Path,
        ground: &Ground,
        without: Option<Safeguard>,
    ) -> anyhow::Result<String> {
        let folder = tempfile::tempdir()?;
        let balance: Arc<dyn Balance> =
            Arc::new(RefusesOnce { at: self.refused(), done: AtomicBool::new(false) });
        let set = Set { lines: Lines::CanLose, ground: ground.renamed(), balance: Some(balance), without };
        let mut play = Play::on(Stage::start(binary, folder.path(), set).await?, Duration::ZERO).await?;
        let fallen = play.stage.fallen();
        let happened = async {
            self.happen(&mut play).await?;
            play.rest().await
        };
        let said = tokio::select! {
            happened = happened => happened,
            fallen = fallen => Err(fallen),
        };
        said.with_context(|| format!("{}, without {without:?}", self.happens))?;
        Ok(self.counted(&play.end().await?.books))
    }

    /// The method whose first answer becomes an error.
    fn refused(&self) -> Option<&'static str> {
        (self.protection == Safeguard::ReservationKey).then_some("/bfstore.v1.Inventory/Reserve")
    }

    async fn happen(&self, play: &mut Play) -> anyhow::Result<()> {
        match self.protection {
            Safeguard::CheckoutKey => {
                let checkout_id = play.shopper.begin(1).await?;
                play.stage.line("storefront").lose_an_answer();
                let first = play.buy(&checkout_id).await;
                ensure!(first == Got::Nothing, "an answer arrived: {first:?}");
                told_of_an_order(play.buy(&checkout_id).await)
            }
            Safeguard::UniqueColumn => {
                let checkout_id = play.shopper.begin(1).await?;
                told_of_an_order(play.buy(&checkout_id).await)?;
                play.rest().await?;
                play.kill("order").await?;
                play.ledgers.change("order", FORGET).await?;
                play.stage.start_again("order").await?;
                told_of_an_order(play.buy(&checkout_id).await)
            }
            Safeguard::ReservationKey | Safeguard::MailKey => play.order().await,
            Safeguard::ProviderKey => {
                play.shopper.tell(Fault::CaptureAnswerLost).await?;
                play.order().await
            }
            Safeguard::Fence => {
                play.shopper.tell(Fault::CaptureLandsLate).await?;
                play.order().await?;
                play.rest().await?;
                play.shopper.land().await
            }
            Safeguard::InboxMark => {
                play.stage.line("notification").lose_an_answer();
                play.order().await?;
                let lost = async |play: &Play| Ok(play.stage.line("notification").lost() == 1);
                play.until("notification has handled an event and its answer is lost", lost).await?;
                play.kill("notification").await?;
                play.stage.start_again("notification").await
            }
            Safeguard::PointsKey => {
                play.order().await?;
                play.rest().await?;
                confirmed_by_hand(play).await
            }
            Safeguard::NewerPrice => {
                play.catalogue("price-7", 2700, 7).await?;
                play.catalogue("price-5", 2600, 5).await
            }
        }
    }

    fn counted(&self, books: &Books) -> String {
        let cell = |table: &str, at: usize| {
            let lines = books.table(table).iter();
            lines.filter_map(|line| line.split(' ').nth(at)?.parse::<i64>().ok()).sum::<i64>()
        };
        let rows = |table: &str| books.table(table).len() as i64;
        let counted = match self.protection {
            Safeguard::CheckoutKey | Safeguard::UniqueColumn => rows("order.orders"),
            Safeguard::ReservationKey => rows("inventory.reservations"),
            Safeguard::ProviderKey | Safeguard::Fence => rows("outside.captures"),
            Safeguard::InboxMark => cell("notification.requests", 1),
            Safeguard::MailKey => rows("outside.mails"),
            // A point for each of its 25 euros.
            Safeguard::PointsKey => cell("loyalty.points", 1) / 25,
            Safeguard::NewerPrice => {
                let lamp =
                    books.table("storefront.prices").iter().find_map(|line| line.strip_prefix("lamp "));
                return lamp.and_then(|lamp| lamp.split(' ').next()).unwrap_or("no price").to_owned();
            }
        };
        counted.to_string()
    }
}

fn told_of_an_order(got: Got) -> anyhow::Result<()> {
    ensure!(got.order().is_some(), "no order is told: {got:?}");
    Ok(())
}

/// A person sends the event again, in a message of its own.
async fn confirmed_by_hand(play: &Play) -> anyhow::Result<()> {
    let endpoint = format!("{}/events/order", play.stage.url("loyalty"));
    let secret = Secret::new(play.stage.secret("order"), KeyForm::Whsec)?;
    let event = Event::OrderConfirmed { order_id: 1, customer_id: "ann".into(), cents: 2500 };
    let message = event.to("loyalty", "order-1/confirmed/by-hand", "order-1", "by-hand");
    let message = message.map_err(anyhow::Error::from_boxed)?;
    let sending = HttpSink::new(&endpoint, vec![secret])?.send(&message).await;
    ensure!(sending == Sending::Accepted, "loyalty did not take the event: {sending:?}");
    Ok(())
}

/// Turns the first success of one method into an error that nobody repeats at once.
struct RefusesOnce {
    at: Option<&'static str>,
    done: AtomicBool,
}

#[async_trait]
impl Balance for RefusesOnce {
    async fn carry(&self, service: &Backend, delivery: Delivery) -> Option<Answer> {
        let answer = service.deliver(&delivery).await.ok()?;
        let strikes = self.at.is_some_and(|at| at == delivery.path) && answer.is_success();
        if strikes && !self.done.swap(true, Ordering::SeqCst) {
            return Some(Answer::grpc(Code::PermissionDenied, "not you"));
        }
        Some(answer)
    }
}
