//! A plain nginx in front of an upstream: what a proxy costs that keeps nothing.
//!
//! The binary is the one in PATH or /usr/sbin. On Debian and its kin, where neither is there, the package is
//! downloaded and unpacked beside the benchmark's files: nothing is installed and no service is started.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::Process;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// Where nginx is, or why there is none.
pub(crate) fn find(dir: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nginx"))
        .find(|nginx| runs(nginx));
    if let Some(nginx) = installed {
        return Ok(nginx);
    }
    let unpacked = dir.join("nginx-package");
    let nginx = unpacked.join("usr/sbin/nginx");
    if !runs(&nginx) {
        unpack(&unpacked).context("nginx is not installed, and its package could not be had")?;
    }
    if !runs(&nginx) {
        bail!("nginx is not installed, and the one in its package does not run here");
    }
    Ok(nginx)
}

fn runs(nginx: &Path) -> bool {
    Command::new(nginx).arg("-v").output().is_ok_and(|output| output.status.success())
}

fn unpack(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    eprintln!("bench: nginx is not installed; its package is unpacked into {}", dir.display());
    if run(dir, "apt-get", ["download", "nginx"]).is_err() {
        // The lists of packages may be old or absent; only root may renew them.
        run(dir, "apt-get", ["update"])?;
        run(dir, "apt-get", ["download", "nginx"])?;
    }
    let is_package = |path: &PathBuf| path.extension() == Some(OsStr::new("deb"));
    let packages = std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages.filter(is_package).max().context("no package was downloaded")?;
    run(dir, "dpkg-deb", [OsStr::new("-x"), package.as_os_str(), dir.as_os_str()])
}

fn run<S: AsRef<OsStr>>(dir: &Path, program: &str, args: impl IntoIterator<Item = S>) -> Result<()> {
    let output = Command::new(program).args(args).current_dir(dir).output().context(program.to_owned())?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// A running nginx.
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    _process: Process,
}

impl Nginx {
    /// Starts it in front of an upstream, with its files in `dir`.
    pub(crate) fn start(binary: &Path, upstream: SocketAddr, dir: &Path) -> Result<Nginx> {
        // nginx says on no channel which port it got, so one is chosen that is free now.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        std::fs::write(dir.join("nginx.conf"), configuration(address, upstream))?;
        let mut command = Command::new(binary);
        command.arg("-p").arg(dir).args(["-e", "stderr", "-c", "nginx.conf"]);
        let mut process = Process::start("nginx", &mut command, dir)?;
        let until = Instant::now() + START_MAX;
        while TcpStream::connect(address).is_err() {
            process.check()?;
            if Instant::now() >= until {
                bail!("nginx does not listen: {}", process.said());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Nginx { address, _process: process })
    }
}

/// Connections are kept on both sides for good, as the gateway keeps them.
fn configuration(address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "daemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    upstream service {{
        server {upstream};
        keepalive 64;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {address};
        location / {{
            proxy_pass http://service;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
"
    )
}
