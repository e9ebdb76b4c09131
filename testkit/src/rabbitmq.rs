//! RabbitMQ for tests: the environment's (`ONEFOLD_RABBITMQ_URL`), or one that is started from an installed binary
//! with a name, an epmd, ports and folders of its own, on loopback alone. It takes some seconds to start, so the tests
//! of one run share one. Tests make queues and exchanges of their own in it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::directory::TestDirectory;
use crate::servers::{self, User};
use crate::skipped::skipped;

/// Names a server that tests may use, where they need not kill it.
pub const URL_VARIABLE: &str = "ONEFOLD_RABBITMQ_URL";

/// A server, its own one unless it is the environment's or shared. An own one is killed when this is dropped.
#[derive(Debug)]
pub struct RabbitServer {
    url: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    process: Child,
    /// Erlang's register of nodes, which the server would otherwise start for the whole host and leave running.
    epmd: Child,
    place: Place,
}

#[derive(Debug)]
struct Place {
    program: PathBuf,
    folder: PathBuf,
    user: User,
    port: u16,
    epmd_port: u16,
}

impl RabbitServer {
    /// One that will not be killed, shared by the tests of this run; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn any(what: &str) -> Option<RabbitServer> {
        let url = match std::env::var(URL_VARIABLE) {
            Ok(url) => Ok(url),
            Err(_) => servers::shared("rabbitmq", |folder| {
                let (own, url) = start_in(folder)?;
                servers::guard(own.process.id(), &servers::run_folder())?;
                servers::guard(own.epmd.id(), &servers::run_folder())?;
                // The guardians end them.
                std::mem::forget(own);
                Ok(url)
            }),
        };
        url.map(|url| RabbitServer { url, own: None }).map_err(|why| skipped(what, &why)).ok()
    }

    /// One in the test's directory; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start(what: &str, directory: &TestDirectory) -> Option<RabbitServer> {
        let opened = std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755));
        opened.expect("the test's directory is the test's");
        let started = start_in(&directory.file("rabbitmq"));
        started.map(|(own, url)| RabbitServer { url, own: Some(own) }).map_err(|why| skipped(what, &why)).ok()
    }

    /// Its address, with its default virtual host.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it: nothing is flushed and nobody is waited for.
    ///
    /// # Panics
    /// When it is not an own one.
    pub fn kill(&mut self) {
        end(&mut self.own.as_mut().expect("an own server").process);
    }

    /// Starts it again, on its port and with what it had stored.
    ///
    /// # Panics
    /// When it is not an own one, or does not start.
    pub fn restart(&mut self) {
        let own = self.own.as_mut().expect("an own server");
        own.process = start(&own.place).expect("the server starts again");
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        end(&mut self.process);
        end(&mut self.epmd);
    }
}

/// Ends a process with its group: what was started is a script, and the server is its child.
fn end(process: &mut Child) {
    if matches!(process.try_wait(), Ok(None)) {
        let group = i32::try_from(process.id()).expect("a process id");
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        let _ = process.wait();
    }
}

fn start_in(folder: &Path) -> Result<(Own, String), String> {
    // The one in the path insists on a user and a home of its own.
    let folders = [PathBuf::from("/usr/lib/rabbitmq/bin")];
    let program = servers::program("rabbitmq-server", &folders).ok_or("no RabbitMQ is installed")?;
    let epmd = servers::program("epmd", &[]).ok_or("no epmd is installed")?;
    let user = User::unprivileged()?;
    user.make_folder(folder)?;
    let folder = folder.to_owned();
    let place = Place { program, folder, user, port: servers::free_port(), epmd_port: servers::free_port() };
    let mut command = Command::new(epmd);
    command.args(["-port", &place.epmd_port.to_string(), "-address", "127.0.0.1"]);
    let mut epmd = servers::spawn(&mut command, &user, &place.folder.join("epmd.log"))?;
    match start(&place) {
        Ok(process) => {
            let url = format!("amqp://guest:guest@127.0.0.1:{}", place.port);
            Ok((Own { process, epmd, place }, url))
        }
        Err(why) => {
            end(&mut epmd);
            Err(why)
        }
    }
}

fn start(place: &Place) -> Result<Child, String> {
    let Place { program, folder, user, port, epmd_port } = place;
    let log = folder.join("rabbitmq.log");
    std::fs::write(folder.join("rabbitmq.conf"), "vm_memory_high_watermark.absolute = 1GB\n")
        .and_then(|()| std::fs::write(folder.join("enabled_plugins"), "[].\n"))
        .map_err(|error| error.to_string())?;
    let inside = |name: &str| folder.join(name);
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("HOME", folder)
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", epmd_port.to_string())
        .env("RABBITMQ_NODENAME", format!("onefold{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", servers::free_port().to_string())
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
        .env("RABBITMQ_CONFIG_FILE", inside("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", inside("none"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", inside("enabled_plugins"))
        .env("RABBITMQ_LOG_BASE", inside("log"))
        .env("RABBITMQ_MNESIA_BASE", inside("mnesia"))
        .env("RABBITMQ_PID_FILE", inside("pid"));
    let mut process = servers::spawn(&mut command, user, &log)?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], *port));
    let mut ended = false;
    let waited = servers::wait_until("the start of RabbitMQ", &log, || {
        ended = matches!(process.try_wait(), Ok(Some(_)));
        ended || std::net::TcpStream::connect(address).is_ok()
    });
    if ended || waited.is_err() {
        end(&mut process);
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("RabbitMQ did not start: {text}"));
    }
    Ok(process)
}
