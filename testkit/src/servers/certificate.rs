//! A certificate for `localhost` that signs itself, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{User, program};

/// A certificate and its key, as files that `user` may read.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Makes one in this folder, which is made as well.
    pub(crate) fn make(folder: &Path, user: User) -> Result<Certificate, String> {
        let openssl = program("openssl", &[]).ok_or("no openssl to make a certificate with")?;
        user.make_folder(folder)?;
        let made = Certificate { certificate: folder.join("server.crt"), key: folder.join("server.key") };
        let mut make = Command::new(openssl);
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        make.args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        make.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        make.arg("-keyout").arg(&made.key).arg("-out").arg(&made.certificate).current_dir(folder);
        user.become_it(&mut make);
        let output = make.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(made),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}
