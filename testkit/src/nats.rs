//! NATS with JetStream for tests: the environment's (`ONEFOLD_NATS_URL`), or one that is started from an installed
//! binary. Tests make streams of their own in it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::directory::TestDirectory;
use crate::servers::{self, User};
use crate::skipped::skipped;

/// Names a server with JetStream that tests may use, where they need not kill it.
pub const URL_VARIABLE: &str = "ONEFOLD_NATS_URL";

/// A server, its own one unless the environment names one. An own one is killed when this is dropped.
#[derive(Debug)]
pub struct NatsServer {
    url: String,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    process: Child,
    program: PathBuf,
    folder: PathBuf,
    user: User,
    port: u16,
}

impl NatsServer {
    /// One that will not be killed; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn any(what: &str, directory: &TestDirectory) -> Option<NatsServer> {
        match std::env::var(URL_VARIABLE) {
            Ok(url) => Some(NatsServer { url, own: None }),
            Err(_) => NatsServer::start(what, directory),
        }
    }

    /// One in the test's directory; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start(what: &str, directory: &TestDirectory) -> Option<NatsServer> {
        let opened = std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755));
        opened.expect("the test's directory is the test's");
        NatsServer::try_start(directory).map_err(|why| skipped(what, &why)).ok()
    }

    fn try_start(directory: &TestDirectory) -> Result<NatsServer, String> {
        let program = servers::program("nats-server", &[]).ok_or("no NATS server is installed")?;
        let user = User::unprivileged()?;
        let folder = directory.file("nats");
        user.make_folder(&folder)?;
        let port = servers::free_port();
        let process = start(&program, user, &folder, port)?;
        let own = Own { process, program, folder, user, port };
        Ok(NatsServer { url: format!("nats://127.0.0.1:{port}"), own: Some(own) })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Kills it: nothing is flushed and nobody is waited for.
    ///
    /// # Panics
    /// When it is the environment's.
    pub fn kill(&mut self) {
        let own = self.own.as_mut().expect("an own server");
        own.process.kill().expect("it runs");
        own.process.wait().expect("the server ends");
    }

    /// Starts it again, on its port and with what it had stored.
    ///
    /// # Panics
    /// When it is the environment's, or does not start.
    pub fn restart(&mut self) {
        let own = self.own.as_mut().expect("an own server");
        own.process = start(&own.program, own.user, &own.folder, own.port).expect("the server starts again");
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Some(own) = &mut self.own {
            // It may have been killed by the test.
            let _ = own.process.kill();
            let _ = own.process.wait();
        }
    }
}

fn start(program: &PathBuf, user: User, folder: &std::path::Path, port: u16) -> Result<Child, String> {
    let log = folder.join("nats.log");
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder.join("data"));
    command.current_dir(folder);
    let mut process = servers::spawn(&mut command, &user, &log)?;
    let mut ended = false;
    servers::wait_until("the start of NATS", &log, || {
        ended = matches!(process.try_wait(), Ok(Some(_)));
        ended || std::fs::read_to_string(&log).unwrap_or_default().contains("Server is ready")
    })?;
    if ended {
        return Err(format!("NATS ended at once: {}", std::fs::read_to_string(&log).unwrap_or_default()));
    }
    Ok(process)
}
