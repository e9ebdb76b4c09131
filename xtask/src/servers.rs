//! Servers, and a browser, that some tests need: the environment's, else installed ones, else installed here where that
//! may be.
//!
//! Tests start the servers themselves from what is installed (`testkit`); this only sees to it that something is. It
//! installs on Debian as root and nowhere else, and with `ONEFOLD_INSTALL=no` not even there. What cannot be had is
//! said, and the tests that need it say that they were skipped.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cargo;

/// `no`: nothing is installed.
const INSTALL_VARIABLE: &str = "ONEFOLD_INSTALL";

/// A server that tests need.
struct Server {
    name: &'static str,
    /// Names a server that is to be used in place of an own one.
    variable: &'static str,
    /// Its program.
    program: &'static str,
    /// Where the program lies beside the usual folders: a folder with one for each version, and a folder in that.
    versions: Option<(&'static str, &'static str)>,
    /// Debian's package.
    package: &'static str,
}

const SERVERS: &[Server] = &[
    Server {
        name: "PostgreSQL",
        variable: "ONEFOLD_POSTGRES_URL",
        program: "postgres",
        versions: Some(("/usr/lib/postgresql", "bin")),
        package: "postgresql",
    },
    Server {
        name: "PgBouncer",
        variable: "ONEFOLD_PGBOUNCER_URL",
        program: "pgbouncer",
        versions: None,
        package: "pgbouncer",
    },
    Server {
        name: "NATS",
        variable: "ONEFOLD_NATS_URL",
        program: "nats-server",
        versions: None,
        package: "nats-server",
    },
    Server {
        name: "RabbitMQ",
        variable: "ONEFOLD_RABBITMQ_URL",
        program: "rabbitmq-server",
        versions: None,
        package: "rabbitmq-server",
    },
    Server {
        name: "aiosmtpd",
        variable: "ONEFOLD_SMTP_PYTHON",
        program: "aiosmtpd",
        versions: None,
        package: "python3-aiosmtpd",
    },
    Server {
        name: "Chromium",
        variable: "ONEFOLD_CHROMIUM",
        program: "chromium",
        versions: None,
        package: "chromium",
    },
    Server {
        name: "ChromeDriver",
        variable: "ONEFOLD_CHROMEDRIVER",
        program: "chromedriver",
        versions: None,
        package: "chromium-driver",
    },
];

/// Where a server comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    Environment,
    Installed(PathBuf),
    Nowhere,
}

impl Server {
    fn source(&self) -> Source {
        if std::env::var_os(self.variable).is_some() {
            return Source::Environment;
        }
        self.folders()
            .into_iter()
            .map(|folder| folder.join(self.program))
            .find(|path| path.is_file())
            .map_or(Source::Nowhere, Source::Installed)
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        if let Some((versions, inner)) = self.versions {
            let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
            folders.extend(entries.map(|entry| entry.path().join(inner)));
        }
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
        folders
    }
}

/// Sees to it that the servers can be had, and says of each where it comes from.
pub fn provide() -> Result<()> {
    let missing: Vec<&Server> = SERVERS.iter().filter(|server| server.source() == Source::Nowhere).collect();
    if !missing.is_empty() {
        match may_install() {
            Ok(()) => install(&missing),
            Err(why) => println!("nothing is installed: {why}"),
        }
    }
    for server in SERVERS {
        match server.source() {
            Source::Environment => println!("{}: that of {}", server.name, server.variable),
            Source::Installed(program) => println!("{}: {}", server.name, program.display()),
            Source::Nowhere => println!(
                "{}: none; set {} or install the package {}. Its tests are skipped",
                server.name, server.variable, server.package
            ),
        }
    }
    Ok(())
}

fn may_install() -> Result<(), String> {
    if std::env::var(INSTALL_VARIABLE).is_ok_and(|value| value == "no") {
        return Err(format!("{INSTALL_VARIABLE}=no"));
    }
    if !Path::new("/etc/debian_version").exists() {
        return Err("this is no Debian".into());
    }
    let user = cargo::output(cargo::command("id").arg("-u")).unwrap_or_default();
    if user.trim_ascii() != b"0" {
        return Err("this user is not root".into());
    }
    Ok(())
}

/// An installation that fails is said and leaves the tests to be skipped.
fn install(missing: &[&Server]) {
    let packages = missing.iter().map(|server| server.package);
    let apt = || {
        let mut apt = cargo::command("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let done = cargo::run(apt().args(["-qq", "update"])).and_then(|()| {
        cargo::run(apt().args(["-qq", "install", "-y", "--no-install-recommends"]).args(packages))
    });
    if let Err(error) = done {
        println!("the installation failed: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_folders_and_an_absent_one_is_not() {
        let server = Server { program: "sh", variable: "ONEFOLD_NO_SUCH_VARIABLE", ..SERVERS_OF_TESTS };
        assert!(matches!(server.source(), Source::Installed(path) if path.ends_with("sh")));
        let absent = Server { program: "no-such-program", ..server };
        assert_eq!(absent.source(), Source::Nowhere);
    }

    const SERVERS_OF_TESTS: Server =
        Server { name: "a shell", variable: "", program: "", versions: None, package: "dash" };
}
