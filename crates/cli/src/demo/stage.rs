//! The stage: a temporary directory, the order service and the gateway in it, each a process of its own.
//!
//! Ports are free ones; a process that comes back after a kill comes back to its own, like a real one. Dropping the
//! stage kills both and removes the directory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tempfile::TempDir;

use crate::demo::books::{Books, ORDERS, STORE};
use crate::demo::caller::Caller;
use crate::demo::child::{Child, Part};
use crate::exit::Failure;

/// The gateway's settings, in the demo's directory.
pub(crate) const SETTINGS: &str = "onefold.toml";

const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Where everything listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) orders: SocketAddr,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// The running processes and their files.
pub(crate) struct Stage {
    // Dropped in this order: processes before their files. None only while one is killed and started again.
    gateway: Option<Child>,
    orders: Option<Child>,
    addresses: Addresses,
    random: StdRng,
    directory: TempDir,
}

impl Stage {
    /// Starts both on free ports.
    pub(crate) async fn set(seed: u64) -> Result<Stage, Failure> {
        let directory = tempfile::Builder::new().prefix("onefold-demo-").tempdir();
        let directory = directory
            .map_err(|error| Failure::failed(format!("there is no room for temporary files: {error}")))?;
        let at = directory.path();
        let (orders, [orders_at]) = orders_part(at, FREE_PORT).start().await?;
        let mut addresses = Addresses { orders: orders_at, gateway: FREE_PORT, admin: FREE_PORT };
        write_settings(at, addresses)?;
        let (gateway, [gateway_at, admin_at]) = gateway_part(at).start().await?;
        addresses = Addresses { gateway: gateway_at, admin: admin_at, ..addresses };
        write_settings(at, addresses)?;
        let random = StdRng::seed_from_u64(seed);
        Ok(Stage { gateway: Some(gateway), orders: Some(orders), addresses, random, directory })
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn books(&self) -> Books {
        Books { directory: self.directory().to_owned() }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller { gateway: self.addresses.gateway }
    }

    /// A random pause of so many milliseconds, the same in every run with the same seed.
    pub(crate) fn pause(&mut self, millis: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(millis))
    }

    pub(crate) async fn kill_gateway(&mut self) -> Result<(), Failure> {
        self.gateway.take().expect("the gateway runs").kill().await
    }

    pub(crate) async fn start_gateway(&mut self) -> Result<(), Failure> {
        let (gateway, [_, _]) = gateway_part(self.directory()).start().await?;
        self.gateway = Some(gateway);
        Ok(())
    }

    pub(crate) async fn kill_orders(&mut self) -> Result<(), Failure> {
        self.orders.take().expect("the order service runs").kill().await
    }

    pub(crate) async fn start_orders(&mut self) -> Result<(), Failure> {
        let (orders, [_]) = orders_part(self.directory(), self.addresses.orders).start().await?;
        self.orders = Some(orders);
        Ok(())
    }

    /// Ends both and removes every file.
    pub(crate) async fn leave(self) {
        drop(self.end().await);
    }

    /// Ends both; the files stay, in this directory.
    pub(crate) async fn leave_files(self) -> PathBuf {
        self.end().await.keep()
    }

    async fn end(self) -> TempDir {
        for child in [self.gateway, self.orders].into_iter().flatten() {
            child.end().await;
        }
        self.directory
    }
}

fn orders_part(directory: &Path, listen: SocketAddr) -> Part {
    let listen = listen.to_string();
    let args = ["demo-orders", "--db", ORDERS, "--listen", &listen].map(str::to_owned);
    let name = "the order service";
    Part { name, args: args.into(), directory: directory.to_owned(), log: "orders.log" }
}

fn gateway_part(directory: &Path) -> Part {
    let args = ["demo-gateway", "--config", SETTINGS].map(str::to_owned);
    Part { name: "the gateway", args: args.into(), directory: directory.to_owned(), log: "gateway.log" }
}

/// The lease is short, so that the story does not wait for long after a kill; everything else is as usual.
fn write_settings(directory: &Path, addresses: Addresses) -> Result<(), Failure> {
    let store = format!("sqlite:{}", directory.join(STORE).display());
    // A JSON string is a TOML string, too.
    let store = json!(store);
    let Addresses { orders, gateway, admin } = addresses;
    let settings = format!(
        r#"# The gateway of `onefold demo`.
[server]
listen = "{gateway}"
admin_listen = "{admin}"

[store]
url = {store}

[upstream]
url = "http://{orders}"

[[operation]]
name = "PlaceOrder"
match = {{ method = "POST", path = "/orders" }}
boundary = "one order for each key"
lease = "2s"
while_running = {{ wait = "1s" }}
"#
    );
    std::fs::write(directory.join(SETTINGS), settings)
        .map_err(|error| Failure::failed(format!("the settings cannot be written: {error}")))
}
