//! A browser for tests: headless Chromium behind its own driver, which speaks WebDriver. Both from what is installed, or
//! what the environment names (`ONEFOLD_CHROMIUM`, `ONEFOLD_CHROMEDRIVER`).

use std::path::PathBuf;
use std::process::{Child, Command};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::directory::TestDirectory;
use crate::servers::{self, User};
use crate::skipped::skipped;

/// Chromium without a screen, without a sandbox (tests may run as root, in a container), and without calls of its own.
const OPTIONS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A driver, whose sessions start browsers. It ends with this value, and they with it.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    url: String,
    chromium: PathBuf,
    profile: PathBuf,
}

impl Browser {
    /// One with its files in the test's directory; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start(what: &str, directory: &TestDirectory) -> Option<Browser> {
        directory.open_to_all();
        Browser::try_start(directory).map_err(|why| skipped(what, &why)).ok()
    }

    fn try_start(directory: &TestDirectory) -> Result<Browser, String> {
        let chromium = installed("ONEFOLD_CHROMIUM", "chromium").ok_or("no Chromium is installed")?;
        let driver =
            installed("ONEFOLD_CHROMEDRIVER", "chromedriver").ok_or("no ChromeDriver is installed")?;
        let user = User::unprivileged()?;
        let folder = directory.file("browser");
        user.make_folder(&folder)?;
        let port = servers::free_port();
        let mut command = Command::new(driver);
        command.arg(format!("--port={port}")).current_dir(&folder).env("HOME", &folder);
        let log = directory.file("chromedriver.log");
        let mut driver = servers::spawn(&mut command, &user, &log)?;
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let mut ended = false;
        servers::wait_until("the start of ChromeDriver", &log, || {
            ended = matches!(driver.try_wait(), Ok(Some(_)));
            ended || std::net::TcpStream::connect(address).is_ok()
        })?;
        if ended {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("ChromeDriver ended at once: {text}"));
        }
        let profile = folder.join("profile");
        Ok(Browser { driver, url: format!("http://127.0.0.1:{port}"), chromium, profile })
    }

    /// Where it speaks WebDriver.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What a session is asked for. One session at a time: they share a profile.
    #[must_use]
    pub fn capabilities(&self) -> serde_json::Map<String, Value> {
        let profile = format!("--user-data-dir={}", self.profile.display());
        let options: Vec<&str> = OPTIONS.iter().copied().chain([profile.as_str()]).collect();
        let options = json!({ "binary": self.chromium, "args": options });
        serde_json::Map::from_iter([("goog:chromeOptions".to_owned(), options)])
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // With the browsers that it has started.
        let group = i32::try_from(self.driver.id()).expect("a process id");
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        let _ = self.driver.wait();
    }
}

fn installed(variable: &str, name: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).or_else(|| servers::program(name, &[]))
}
