//! The user that servers run as: this one, unless it is root, whom PostgreSQL and PgBouncer refuse.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A user without rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User(Option<(u32, u32)>);

impl User {
    /// `postgres` or `nobody` in place of root.
    pub(crate) fn unprivileged() -> Result<User, String> {
        if !nix::unistd::Uid::effective().is_root() {
            return Ok(User(None));
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let of = |name: &str| users.lines().find_map(|line| ids(line, name));
        match of("postgres").or_else(|| of("nobody")) {
            Some(ids) => Ok(User(Some(ids))),
            None => Err("root may not run it, and there is neither a user postgres nor nobody".into()),
        }
    }

    /// The command will run as this user.
    pub(crate) fn become_it(self, command: &mut Command) {
        if let User(Some((user, group))) = self {
            command.uid(user).gid(group);
        }
    }

    /// Makes a folder that only this user may enter.
    pub(crate) fn make_folder(self, path: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir_all(path).map_err(failed)?;
        match self {
            User(Some((user, group))) => chown(path, Some(user), Some(group)).map_err(failed),
            User(None) => Ok(()),
        }
    }
}

fn ids(line: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    if fields.next() != Some(name) {
        return None;
    }
    Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        assert_eq!(ids("postgres:x:105:113:PostgreSQL:/var/lib:/bin/bash", "postgres"), Some((105, 113)));
        assert_eq!(ids("postgres2:x:105:113::/:/", "postgres"), None);
    }
}
