//! A broker that speaks Kafka's protocol, for tests: the environment's (`ONEFOLD_KAFKA_URL`, its `host:port`), or a
//! tansu that is started from an installed binary and keeps everything in memory. Tests make topics and groups of their
//! own in it.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use crate::directory::TestDirectory;
use crate::servers::{self, User};
use crate::skipped::skipped;

/// Names a broker that tests may use.
pub const URL_VARIABLE: &str = "ONEFOLD_KAFKA_URL";

/// A broker, an own one unless the environment names one. An own one is killed when this is dropped.
#[derive(Debug)]
pub struct KafkaServer {
    address: String,
    own: Option<Child>,
}

impl KafkaServer {
    /// One that will not be killed; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn any(what: &str, directory: &TestDirectory) -> Option<KafkaServer> {
        match std::env::var(URL_VARIABLE) {
            Ok(address) => Some(KafkaServer { address, own: None }),
            Err(_) => KafkaServer::start(directory).map_err(|why| skipped(what, &why)).ok(),
        }
    }

    /// The environment's; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn named(what: &str) -> Option<KafkaServer> {
        match std::env::var(URL_VARIABLE) {
            Ok(address) => Some(KafkaServer { address, own: None }),
            Err(_) => {
                skipped(what, "ONEFOLD_KAFKA_URL names no broker, and tansu 0.6 does not do");
                None
            }
        }
    }

    fn start(directory: &TestDirectory) -> Result<KafkaServer, String> {
        let why = "no tansu is installed (`cargo install tansu --version ^0.6 --features dynostore`), and \
                   ONEFOLD_KAFKA_URL names no broker";
        let program = servers::program("tansu", &[]).ok_or(why)?;
        let opened = std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755));
        opened.expect("the test's directory is the test's");
        let user = User::unprivileged()?;
        let folder = directory.file("tansu");
        user.make_folder(&folder)?;
        let address = SocketAddr::from(([127, 0, 0, 1], servers::free_port()));
        let url = format!("tcp://{address}");
        let log = folder.join("tansu.log");
        let mut command = Command::new(program);
        command.args(["broker", "--listener-url", &url, "--advertised-listener-url", &url]);
        command.args(["--storage-engine", "memory://tansu/"]).current_dir(folder);
        let mut process = servers::spawn(&mut command, &user, &log)?;
        let mut ended = false;
        let waited = servers::wait_until("the start of tansu", &log, || {
            ended = matches!(process.try_wait(), Ok(Some(_)));
            ended || TcpStream::connect(address).is_ok()
        });
        let server = KafkaServer { address: address.to_string(), own: Some(process) };
        waited?;
        if ended {
            return Err(format!(
                "tansu ended at once: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            ));
        }
        Ok(server)
    }

    /// Its address, as in `bootstrap.servers`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for KafkaServer {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            let _ = own.kill();
            let _ = own.wait();
        }
    }
}
