//! Carries out what [`Call`] says over any transport: pauses, budget, circuit, time-outs. Needs tokio's timer.
//!
//! Dropping the future stops it at once. What was sent by then may take effect: with a key, come back with the same
//! one.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::answer::{Answer, Ended};
use crate::call::{Call, End, Event, Next, Stopped};
use crate::clock;
use crate::destination::Destination;
use crate::meaning::{self, Page, Reading};
use crate::profile::{Means, Profile};

/// Sends a request, once for each call, with the same bytes and the same key.
pub trait Transport: Send {
    /// Sends the request once. The driver drops the future when the attempt's time is over.
    fn send(&mut self) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;

    /// GET of a path on the same host, with the request's credentials. `None`: it could not be asked.
    fn page(&mut self, path: &str) -> impl Future<Output = Option<Answer>> + Send;
}

/// Why an attempt has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Not a byte of the request was sent.
    #[error("not sent: {0}")]
    NotSent(String),
    /// Bytes were sent, or may have been.
    #[error("lost: {0}")]
    Lost(String),
}

/// What is going on, for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// An attempt begins.
    Sending {
        /// From 1.
        attempt: u32,
        /// How long it may take.
        time: Duration,
    },
    /// It has its answer.
    Answered {
        /// From 1.
        attempt: u32,
        /// The status.
        status: u16,
        /// What that means.
        means: Means,
        /// It is the answer of an earlier attempt.
        replayed: bool,
    },
    /// It has none.
    NoAnswer {
        /// From 1.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// A pause.
    Waiting {
        /// How long.
        time: Duration,
        /// What for.
        until: Until,
    },
    /// The operation's page was asked for.
    Asked {
        /// Its path.
        path: String,
        /// What it says; `None`: it could not be had.
        page: Option<Page>,
    },
}

/// What a pause is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The next attempt: a retry.
    Retry,
    /// Asking again what is in progress.
    AskAgain,
    /// The circuit of the destination.
    CircuitCloses,
}

/// Whom to tell what is going on.
pub type Watch<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// From the first attempt to the end.
pub async fn drive<T: Transport>(
    call: Call,
    destination: &Destination,
    profile: &Profile,
    transport: &mut T,
    watch: Watch<'_>,
) -> Ended {
    let drive =
        Drive { call, destination, profile, transport, watch, begun: Instant::now(), sent: 0, last: None };
    drive.run().await
}

struct Drive<'a, T> {
    call: Call,
    destination: &'a Destination,
    profile: &'a Profile,
    transport: &'a mut T,
    watch: Watch<'a>,
    begun: Instant,
    sent: u32,
    last: Option<(Answer, Reading)>,
}

impl<T: Transport> Drive<'_, T> {
    async fn run(mut self) -> Ended {
        let mut next = Next::Send { after: Duration::ZERO, is_retry: false };
        let end = loop {
            let event = match next {
                Next::End(end) => break end,
                Next::Send { after, is_retry } => match self.send(after, is_retry).await {
                    Ok(event) => event,
                    Err(end) => break end,
                },
                Next::Poll { after, path } => self.poll(after, &path).await,
            };
            next = self.call.next(event, self.begun.elapsed(), rand::random());
        };
        let (answer, replayed) = match self.last {
            Some((answer, reading)) => (Some(answer), reading.replayed),
            None => (None, false),
        };
        if end.verdict.is_final() {
            self.destination.succeeded();
        }
        Ended::new(end, answer, replayed, self.sent)
    }

    async fn send(&mut self, after: Duration, is_retry: bool) -> Result<Event, End> {
        self.pause(after, if is_retry { Until::Retry } else { Until::AskAgain }).await;
        if is_retry && !self.destination.take_retry() {
            return Err(self.call.stop(Stopped::BudgetSpent));
        }
        self.admitted().await?;
        let time = self.call.time_for_attempt(self.begun.elapsed());
        if time.is_zero() {
            return Err(self.call.stop(Stopped::Deadline));
        }
        self.sent += 1;
        (self.watch)(Progress::Sending { attempt: self.sent, time });
        let sent = timeout(time, self.transport.send()).await;
        Ok(self.judge(sent.ok()))
    }

    /// Waits for the circuit, within the deadline.
    async fn admitted(&mut self) -> Result<(), End> {
        while let Err(shut) = self.destination.admit() {
            if shut >= self.call.time_left(self.begun.elapsed()) {
                return Err(self.call.stop(Stopped::CircuitOpen));
            }
            self.pause(shut, Until::CircuitCloses).await;
        }
        Ok(())
    }

    /// What came of an attempt; `None`: its time was over.
    fn judge(&mut self, sent: Option<Result<Answer, NoAnswer>>) -> Event {
        let attempt = self.sent;
        self.last = None;
        let no_answer = |why: &str| (self.watch)(Progress::NoAnswer { attempt, why: why.to_owned() });
        let event = match sent {
            Some(Ok(answer)) => return self.read(answer),
            Some(Err(none)) => {
                no_answer(&none.to_string());
                match none {
                    NoAnswer::NotSent(_) => Event::NotSent,
                    NoAnswer::Lost(_) => Event::Lost,
                }
            }
            None => {
                no_answer("no answer in time");
                Event::TimedOut
            }
        };
        self.destination.failed();
        event
    }

    fn read(&mut self, answer: Answer) -> Event {
        let lines = answer.all_lines();
        let reading = meaning::read(answer.received(&lines), self.profile, clock::since_epoch());
        match reading.in_trouble {
            true => self.destination.failed(),
            false => self.destination.answered(),
        }
        (self.watch)(Progress::Answered {
            attempt: self.sent,
            status: answer.status.as_u16(),
            means: reading.means,
            replayed: reading.replayed,
        });
        self.last = Some((answer, reading.clone()));
        Event::Answer(reading)
    }

    async fn poll(&mut self, after: Duration, path: &str) -> Event {
        self.pause(after, Until::AskAgain).await;
        let time = self.call.time_for_attempt(self.begun.elapsed());
        let answer = timeout(time, self.transport.page(path)).await.ok().flatten();
        let page = answer.map(|answer| {
            let lines = answer.all_lines();
            meaning::read_page(answer.received(&lines), clock::since_epoch())
        });
        (self.watch)(Progress::Asked { path: path.to_owned(), page });
        page.map_or(Event::NoPage, Event::Page)
    }

    fn pause(&self, time: Duration, until: Until) -> impl Future<Output = ()> + Send + use<T> {
        if !time.is_zero() {
            (self.watch)(Progress::Waiting { time, until });
        }
        // Sleeping for no time would still wait for the next tick of the timer.
        async move {
            if !time.is_zero() {
                sleep(time).await;
            }
        }
    }
}
