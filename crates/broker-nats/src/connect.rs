//! A connection that comes back: for ever, with growing pauses and jitter, also where the server is not there yet.

use async_nats::{Client, ConnectOptions};
use onefold_messages::limits::RECONNECT;

/// The address or the credentials cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the connection to NATS cannot be set up: {0}")]
pub struct ConnectError(#[from] async_nats::ConnectError);

/// Connects to the servers of this address (`nats://host:port`, several with commas between). `options` carry
/// credentials and TLS. Does not wait for a server that is not there.
pub async fn connect(url: &str, options: ConnectOptions) -> Result<Client, ConnectError> {
    let options = options.retry_on_initial_connect().max_reconnects(None).reconnect_delay_callback(|tries| {
        let tries = u32::try_from(tries).unwrap_or(u32::MAX).saturating_sub(1);
        RECONNECT.pause(tries, rand::random())
    });
    let servers: Vec<&str> = url.split(',').collect();
    Ok(options.connect(servers).await?)
}
