//! A mail server for tests: aiosmtpd, which can be told to take a mail and to cut the connection in place of the
//! answer.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::directory::TestDirectory;
use crate::servers::{self, Certificate, User};
use crate::skipped::skipped;

/// Names a Python that has aiosmtpd.
pub const PYTHON_VARIABLE: &str = "ONEFOLD_SMTP_PYTHON";
const PROGRAM: &str = include_str!("smtp_server.py");

/// A mail that the server took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenMail {
    /// The sender of the envelope.
    pub from: String,
    /// The recipients of the envelope.
    pub to: Vec<String>,
    /// Whether it came over TLS.
    pub encrypted: bool,
    /// Who had logged in.
    pub user: Option<String>,
    /// The mail, byte for byte.
    pub text: String,
}

impl TakenMail {
    /// The value of the first line of this name, not unfolded.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().take_while(|line| !line.is_empty());
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// A server; killed when dropped.
#[derive(Debug)]
pub struct SmtpServer {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl SmtpServer {
    /// One without encryption in the test's directory; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start(what: &str, directory: &TestDirectory) -> Option<SmtpServer> {
        SmtpServer::try_start(directory, false)
            .map_err(|why| skipped(what, &why))
            .ok()
            .map(|(server, _)| server)
    }

    /// One that takes nothing before STARTTLS and knows the user `shop` with the password `open sesame`, and its
    /// certificate for `localhost`.
    #[must_use]
    pub fn start_encrypted(what: &str, directory: &TestDirectory) -> Option<(SmtpServer, PathBuf)> {
        let (server, certificate) =
            SmtpServer::try_start(directory, true).map_err(|why| skipped(what, &why)).ok()?;
        Some((server, certificate?))
    }

    fn try_start(
        directory: &TestDirectory,
        encrypted: bool,
    ) -> Result<(SmtpServer, Option<PathBuf>), String> {
        let python = python()?;
        let user = User::unprivileged()?;
        directory.open_to_all();
        let folder = directory.file("smtp");
        user.make_folder(&folder)?;
        let program = folder.join("server.py");
        std::fs::write(&program, PROGRAM).map_err(|error| error.to_string())?;
        let mut command = Command::new(python);
        command.arg(&program).arg(&folder).current_dir(&folder);
        let mut certificate = None;
        if encrypted {
            let made = Certificate::make(&directory.file("tls"), user)?;
            command.arg(&made.certificate).arg(&made.key);
            certificate = Some(made.certificate);
        }
        let (port, log) = (folder.join("port"), folder.join("smtp.log"));
        let mut process = servers::spawn(&mut command, &user, &log)?;
        let mut ended = false;
        servers::wait_until("the start of the mail server", &log, || {
            ended = matches!(process.try_wait(), Ok(Some(_)));
            ended || port.is_file()
        })?;
        if ended {
            return Err(format!("it ended at once: {}", std::fs::read_to_string(&log).unwrap_or_default()));
        }
        let port = std::fs::read_to_string(port).map_err(|error| error.to_string())?;
        let port = port.parse().map_err(|_| format!("{port} is no port"))?;
        Ok((SmtpServer { process, folder, port }, certificate))
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it does with the mails from its first one on, one word for each (`smtp_server.py` lists them); it takes
    /// what is beyond them.
    ///
    /// # Panics
    /// When the order cannot be written.
    pub fn orders(&self, orders: &[&str]) {
        self.tell("orders", &orders.join("\n"));
    }

    /// Answers every EHLO with this code.
    ///
    /// # Panics
    /// When the order cannot be written.
    pub fn greets_with(&self, code: u16) {
        self.tell("greeting", &code.to_string());
    }

    fn tell(&self, file: &str, text: &str) {
        let part = self.folder.join(format!("{file}.told"));
        std::fs::write(&part, text).expect("an order");
        std::fs::rename(part, self.folder.join(file)).expect("an order");
    }

    /// How many mails were begun.
    #[must_use]
    pub fn begun(&self) -> usize {
        std::fs::read(self.folder.join("begun")).unwrap_or_default().len()
    }

    /// What it has taken, in order.
    ///
    /// # Panics
    /// When a mail cannot be read.
    #[must_use]
    pub fn taken(&self) -> Vec<TakenMail> {
        let files = (1..).map(|number| self.folder.join(format!("mail-{number}.json")));
        files.map_while(|file| std::fs::read(file).ok()).map(|mail| read(&mail)).collect()
    }

    /// Kills it. Nobody listens on its port afterwards.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        // It may have been killed by the test.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(mail: &[u8]) -> TakenMail {
    let mail: Value = serde_json::from_slice(mail).expect("JSON");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    TakenMail {
        from: text(&mail["from"]).expect("a sender"),
        to: mail["to"].as_array().into_iter().flatten().filter_map(text).collect(),
        encrypted: mail["encrypted"] == true,
        user: text(&mail["user"]),
        text: text(&mail["text"]).expect("a mail"),
    }
}

/// A Python that has aiosmtpd: the one named, or the system's.
fn python() -> Result<PathBuf, String> {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let python = named.unwrap_or_else(|| Path::new("/usr/bin/python3").to_owned());
    let has_it = Command::new(&python).args(["-c", "import aiosmtpd"]).output();
    match has_it {
        Ok(output) if output.status.success() => Ok(python),
        _ => Err("no aiosmtpd is installed".into()),
    }
}
