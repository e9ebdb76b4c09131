//! PgBouncer in transaction mode for tests: the environment's (`ONEFOLD_PGBOUNCER_URL`), or one that is started from
//! an installed binary in front of the shared PostgreSQL, with two server connections for each database: few enough
//! that whoever relies on a session finds another one. A test that takes a server away has a [`Pooler`] of its own.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;

use crate::postgres;
use crate::servers::{self, User};

/// Names a PgBouncer in front of the server of `ONEFOLD_POSTGRES_URL` that knows every database of it.
pub const URL_VARIABLE: &str = "ONEFOLD_PGBOUNCER_URL";

/// Its address without a database, or why there is none.
pub fn shared() -> Result<String, String> {
    static SHARED: OnceLock<Result<String, String>> = OnceLock::new();
    SHARED
        .get_or_init(|| match std::env::var(URL_VARIABLE) {
            Ok(url) => Ok(url.trim_end_matches('/').to_owned()),
            Err(_) if std::env::var_os(postgres::URL_VARIABLE).is_some() => {
                Err(format!("{} is set and {URL_VARIABLE} is not", postgres::URL_VARIABLE))
            }
            Err(_) => {
                let server = postgres::shared()?;
                servers::shared("pgbouncer", |folder| {
                    let pooler = start(folder, &server)?;
                    servers::guard(pooler.process.id(), &servers::run_folder())?;
                    let url = pooler.url.clone();
                    // The guardian ends it.
                    std::mem::forget(pooler);
                    Ok(url)
                })
            }
        })
        .clone()
}

/// A pooler of one's own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Pooler {
    process: Child,
    url: String,
}

impl Pooler {
    /// Starts one in this folder, in front of the server of this address; says why there can be none.
    pub fn start_in(folder: &Path, server: &str) -> Result<Pooler, String> {
        start(folder, server)
    }

    /// Its address, without a database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// It asks for a server that was away every second, as the operator's page says it should.
fn start(folder: &Path, server: &str) -> Result<Pooler, String> {
    let program = servers::program("pgbouncer", &[]).ok_or("no PgBouncer is installed")?;
    let user = User::unprivileged()?;
    user.make_folder(folder)?;
    let port_of_server = server.rsplit(':').next().unwrap_or_default();
    let port = servers::free_port();
    let (config, log) = (folder.join("pgbouncer.ini"), folder.join("pgbouncer.log"));
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={port_of_server} user=postgres\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
         pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 2000\nserver_idle_timeout = 2\n\
         server_login_retry = 1\nlogfile =\npidfile =\n"
    );
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(&config).current_dir(folder);
    let process = servers::spawn(&mut command, &user, &log)?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let pooler = Pooler { process, url: format!("postgres://postgres@{address}") };
    servers::wait_until("the start of PgBouncer", &log, || std::net::TcpStream::connect(address).is_ok())?;
    Ok(pooler)
}
