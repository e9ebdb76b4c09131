//! `onefold relay`: sends what the outbox holds to the destinations of the settings, and shows health and metrics where it
//! is told to.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_broker_http::HttpSink;
use onefold_broker_nats::NatsSink;
use onefold_broker_rabbitmq::{Access, RabbitSink};
use onefold_broker_smtp::SmtpSink;
use onefold_config::{Destination as Configured, LostAnswers, Settings, To};
use onefold_engine::{Engine, Limits};
use onefold_messages::limits::SENT_KEPT;
use onefold_messages::{Destination, IfLost, Relay, Sink};
use onefold_store::OutboxStore;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::args::Common;
use crate::end_signals::EndSignals;
use crate::exit::Failure;
use crate::out::print;
use crate::store::Place;

/// Runs a relay until SIGTERM or SIGINT.
pub(crate) async fn run(common: &Common, listen: Option<SocketAddr>) -> Result<ExitCode, Failure> {
    let Some(path) = &common.config else {
        return Err(Failure::usage("--config: name the file with the [[destination]]s of the relay"));
    };
    let settings = Settings::load(path).map_err(|error| Failure::usage(error.to_string()))?;
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    if settings.destinations.is_empty() {
        let message = format!("{}: there is no [[destination]] to send to", path.display());
        return Err(Failure::usage(message));
    }
    let mut destinations = Vec::new();
    for configured in &settings.destinations {
        destinations.push(destination(configured).await?);
    }
    let store = Place::of(common)?.open().await?;
    // Not before: whoever asked would wait as long as a migration does.
    let listener = match listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let outbox = store.outbox();
    let mut end = EndSignals::take()?;
    let engine = Engine::new(store.operations(), "relay", Limits::default());
    let sweep_every = settings.store.sweep_every;
    let keepers =
        [engine.keep(sweep_every), engine.keep_messages(store.message_store(), sweep_every, SENT_KEPT)];
    let names: Vec<&str> = settings.destinations.iter().map(|one| one.name.as_str()).collect();
    warn_of_orphans(outbox.as_ref(), &names).await;
    let relay = Relay::start(&outbox, destinations);
    print(format!("relaying to {}", names.join(", ")))?;
    let stopping = Arc::new(AtomicBool::new(false));
    let shown = listener.map(|listener| show(listener, engine, &stopping)).transpose()?;

    end.wait().await;
    stopping.store(true, Ordering::Relaxed);
    tracing::info!("stopping: what is on its way may arrive within the grace");
    let left = relay.stop(settings.server.shutdown_grace).await;
    drop((keepers, shown));
    match left {
        0 => Ok(ExitCode::SUCCESS),
        left => Err(Failure::failed(format!(
            "{left} messages were on their way when the grace was over; they are sent again, or held, when their leases end"
        ))),
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| Failure::usage(format!("--listen: {address} cannot be listened on: {error}")))
}

/// Shows health and metrics until it is dropped.
fn show(listener: TcpListener, engine: Engine, stopping: &Arc<AtomicBool>) -> Result<JoinSet<()>, Failure> {
    let address = listener.local_addr().map_err(|error| Failure::failed(error.to_string()))?;
    let router = onefold_api::health(engine, Registry::default(), stopping.clone());
    let mut shown = JoinSet::new();
    shown.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "health and metrics are shown no longer");
        }
    });
    print(format!("health and metrics on http://{address}"))?;
    Ok(shown)
}

/// Messages for a destination that is misspelt somewhere would wait in silence. Webhooks are the gateway's to forward.
async fn warn_of_orphans(outbox: &dyn OutboxStore, names: &[&str]) {
    for found in outbox.survey_outbox().await.unwrap_or_default() {
        let destination = found.destination.as_str();
        if found.depth > 0 && !names.contains(&destination) && !destination.starts_with("inbox/") {
            tracing::warn!(
                destination,
                waiting = found.depth,
                "messages wait for a destination that this relay does not have"
            );
        }
    }
}

/// The destination that the settings mean. A server that is not there yet is none of its mistakes.
async fn destination(configured: &Configured) -> Result<Destination, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::usage(format!("destination {:?}: {error}", configured.name));
    let destination = match &configured.to {
        To::Nats { url } => {
            let options = async_nats::ConnectOptions::new();
            let client = onefold_broker_nats::connect(url, options).await.map_err(|error| wrong(&error))?;
            over(configured, NatsSink::new(client))
        }
        To::Http { url, secrets, lost_answers } => {
            let sink = HttpSink::new(url, secrets.clone()).map_err(|error| wrong(&error))?;
            let sink = match configured.timeout {
                Some(timeout) => sink.answer_within(timeout),
                None => sink,
            };
            over(configured, sink.lost_answers(if_lost(*lost_answers)))
        }
        To::Smtp { url, sender, lost_answers } => {
            let sink = SmtpSink::at(url).map_err(|error| wrong(&error))?;
            let sink = match sender {
                Some(sender) => sink.sender(sender).map_err(|error| wrong(&error))?,
                None => sink,
            };
            sink.lost_answers(if_lost(*lost_answers)).destination(configured.name.clone())
        }
        To::RabbitMq { url, exchange } => {
            let sink = Access::new(url).and_then(|access| RabbitSink::new(access, exchange));
            over(configured, sink.map_err(|error| wrong(&error))?)
        }
        #[cfg(feature = "kafka")]
        To::Kafka { servers } => {
            let mut client = onefold_broker_kafka::ClientConfig::new();
            client.set("bootstrap.servers", servers);
            let sink = onefold_broker_kafka::KafkaSink::new(client).map_err(|error| wrong(&error))?;
            over(configured, sink)
        }
        #[cfg(not(feature = "kafka"))]
        To::Kafka { .. } => {
            return Err(wrong(&"this binary was built without Kafka; build it with --features kafka"));
        }
    };
    let destination = match configured.timeout {
        Some(timeout) => destination.timeout(timeout),
        None => destination,
    };
    let destination = match configured.attempts {
        Some(attempts) => destination.attempts(Some(attempts)),
        None => destination,
    };
    Ok(match configured.concurrency {
        Some(concurrency) => destination.concurrency(concurrency),
        None => destination,
    })
}

fn if_lost(answers: LostAnswers) -> IfLost {
    match answers {
        LostAnswers::SendAgain => IfLost::SendAgain,
        LostAnswers::Hold => IfLost::Hold,
    }
}

fn over(configured: &Configured, sink: impl Sink) -> Destination {
    Destination::new(configured.name.clone(), sink)
}
