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
        // What the parser takes for no name of a host it replaces by `localhost`, which is another server.
        let (_, rest) = url.split_once("://").ok_or("it is no amqp:// or amqps:// address")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        match authority.rsplit('@').next() {
            None | Some("") => return Err("it names no host".into()),
            Some(host) if host.starts_with(':') => return Err("it names no host".into()),
            Some(host) if host.starts_with('[') => {
                return Err("an IPv6 address is not taken; write a name of the host".into());
            }
            Some(_) => {}
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_whose_host_would_be_replaced_is_refused_without_repeating_it() {
        for wrong in [
            "amqp://",
            "amqp://u:secret@",
            "amqp://u:secret@:5672/v",
            "amqps://u:secret@[2001:db8::5]:5671",
            "amqp:u:secret",
        ] {
            let said = Access::new(wrong).err().expect(wrong);
            assert!(!said.contains("secret"), "{said}");
        }
        for right in
            ["amqp://host", "amqp://u:p@127.0.0.1:5672/%2f?heartbeat=10", "amqps://u:p@host.example/"]
        {
            assert!(Access::new(right).is_ok(), "{right}");
        }
    }
}
