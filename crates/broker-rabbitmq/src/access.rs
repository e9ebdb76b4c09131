//! Where the server is and how to get in; one connection each time it is asked for.

use std::time::Duration;

use lapin::tcp::OwnedTLSConfig;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};

/// How long a connection may take to be there.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A server. Clones mean the same one.
#[derive(Clone)]
pub struct Access {
    uri: AMQPUri,
    tls: OwnedTLSConfig,
}

impl Access {
    /// The server of this address: `amqp://user:password@host:port/vhost`, or `amqps` for TLS, with certificates of
    /// the roots that browsers know. `?heartbeat=10` says after how many seconds a silent server counts as lost.
    ///
    /// # Errors
    /// What is wrong with the address, without the address.
    pub fn new(url: &str) -> Result<Access, String> {
        Ok(Access { uri: url.parse()?, tls: OwnedTLSConfig::default() })
    }

    /// With a certificate of one's own, or other roots.
    pub fn tls(mut self, tls: OwnedTLSConfig) -> Access {
        self.tls = tls;
        self
    }

    pub(crate) async fn connect(&self) -> Result<Connection, String> {
        let runtime = lapin::runtime::default_runtime().map_err(|error| error.to_string())?;
        let properties = ConnectionProperties::default().with_connection_name("onefold".into());
        let connecting =
            Connection::connect_uri_with_config(self.uri.clone(), properties, self.tls.clone(), runtime);
        match tokio::time::timeout(CONNECT_WITHIN, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no connection within {CONNECT_WITHIN:?}")),
        }
    }
}
