//! What is repeated: the ten sources of repetition, the five effects, and which source strikes at which effect of which
//! checkout.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// Where a repetition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The answer is lost on its way, and the caller asks again.
    ClientRetry,
    /// The balancer has the answer, and sends the request once more all the same.
    BalancerRetry,
    /// The calling service is told of an error although it is done, and starts that work again.
    ServiceRetry,
    /// The request is delivered again later, byte for byte.
    Redelivery,
    /// Whoever was asked ends after it is done and before it has answered, and is started again.
    ConsumerRestart,
    /// Whoever asks is killed before it has the answer.
    WorkerCrash,
    /// A person asks for it by hand, though it is done.
    OperatorReplay,
    /// What was given up as undeliverable, though it was done, is sent again when everything is at rest.
    DeadLetter,
    /// The same is asked for twice at the same moment.
    DoubleSubmit,
    /// A job that runs on a schedule has seen that it is missing, and asks for it when it is there.
    Reconciliation,
}

/// What must happen once for each checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// A row of the order's table.
    Order,
    /// A row of the inventory's table, and stock taken.
    Reservation,
    /// Money taken by the provider.
    Capture,
    /// A mail taken by the mail server.
    Notification,
    /// Points given.
    Award,
}

/// Who says that it is confirmed or paid, and so asks for the mail.
pub const ASK_FOR_MAILS: [&str; 2] = ["order", "payment"];

/// What strikes at one checkout.
#[derive(Clone, Debug)]
pub struct Plan {
    sources: [Source; Effect::ALL.len()],
    /// Of the two events that ask for the mail, the one at which the source strikes: that of this sender.
    pub mail_asked_by: &'static str,
    /// Whether the worker that crashes at the mail is the one that sends it, and not the one that asks for it.
    pub dies_mailing: bool,
}

impl Source {
    /// All of them.
    pub const ALL: [Source; 10] = [
        Source::ClientRetry,
        Source::BalancerRetry,
        Source::ServiceRetry,
        Source::Redelivery,
        Source::ConsumerRestart,
        Source::WorkerCrash,
        Source::OperatorReplay,
        Source::DeadLetter,
        Source::DoubleSubmit,
        Source::Reconciliation,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Source::ClientRetry => "client retry",
            Source::BalancerRetry => "load-balancer retry",
            Source::ServiceRetry => "service retry",
            Source::Redelivery => "message redelivery",
            Source::ConsumerRestart => "consumer restart",
            Source::WorkerCrash => "worker crash",
            Source::OperatorReplay => "operator replay",
            Source::DeadLetter => "dead-letter recovery",
            Source::DoubleSubmit => "double submit",
            Source::Reconciliation => "scheduled reconciliation",
        }
    }
}

impl Effect {
    /// All of them.
    pub const ALL: [Effect; 5] =
        [Effect::Order, Effect::Reservation, Effect::Capture, Effect::Notification, Effect::Award];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Effect::Order => "order",
            Effect::Reservation => "reservation",
            Effect::Capture => "capture",
            Effect::Notification => "notification",
            Effect::Award => "award",
        }
    }
}

impl Plan {
    /// What strikes at this effect.
    pub fn source(&self, effect: Effect) -> Source {
        self.sources[effect as usize]
    }
}

/// Deals the sources: each strikes at each effect equally often, and which of them meet in one checkout is left to the
/// seed.
pub fn deal(checkouts: usize, seed: u64) -> Vec<Plan> {
    let mut random = StdRng::seed_from_u64(seed);
    let decks = Effect::ALL.map(|_| {
        let mut deck: Vec<Source> = Source::ALL.into_iter().cycle().take(checkouts).collect();
        deck.shuffle(&mut random);
        deck
    });
    let mut crashes = 0;
    let plan = |checkout: usize| {
        let sources = Effect::ALL.map(|effect| decks[effect as usize][checkout]);
        let is_crash = sources[Effect::Notification as usize] == Source::WorkerCrash;
        crashes += usize::from(is_crash);
        Plan {
            sources,
            mail_asked_by: ASK_FOR_MAILS[checkout % ASK_FOR_MAILS.len()],
            dies_mailing: is_crash && crashes % 2 == 1,
        }
    };
    (0..checkouts).map(plan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_dealt_and_a_seed_deals_alike() {
        let plans = deal(10, 7);
        for effect in Effect::ALL {
            let mut sources: Vec<_> = plans.iter().map(|plan| plan.source(effect)).collect();
            sources.sort();
            assert_eq!(sources, Source::ALL, "{effect:?}");
        }
        assert_eq!(deal(50, 7).iter().filter(|plan| plan.dies_mailing).count(), 3);
        let sources = |plans: &[Plan]| plans.iter().map(|plan| plan.sources).collect::<Vec<_>>();
        assert_eq!(sources(&plans), sources(&deal(10, 7)));
        assert_ne!(sources(&plans), sources(&deal(10, 8)));
    }
}
