//! Mode, owner and group of the file of a unix socket.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::SocketAddr},
    path::Path,
};

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat};

use crate::SettingError;

/// Greatest mode: permissions only.
const MODE_MAX: u32 = 0o777;

/// Mode, owner and group; those that are not set are the system's choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketAccess {
    mode: Option<u32>,
    owner: Option<u32>,
    group: Option<u32>,
}

impl SocketAccess {
    /// Parses an octal mode, such as `0660`, and the names or numbers of owner and group. `key` is that of
    /// the socket's path: `queue.socket`.
    ///
    /// # Errors
    /// One of them is invalid. The text begins with `key_mode = value`, or the key of the other.
    pub fn new(
        key: &str,
        mode: Option<&str>,
        owner: Option<&str>,
        group: Option<&str>,
    ) -> Result<Self, SettingError> {
        let parse = |mode: &str| {
            let octal =
                mode.bytes().all(|byte| byte.is_ascii_digit()).then(|| u32::from_str_radix(mode, 8).ok());
            octal
                .flatten()
                .filter(|mode| *mode <= MODE_MAX)
                .ok_or_else(|| format!("{key}_mode = {mode}: it is no mode: write octal digits such as 0660"))
        };
        let id = |name: Option<&str>, what: &str, file: &str| {
            let Some(name) = name else { return Ok(None) };
            let number = name.parse().ok().filter(|id| *id != u32::MAX);
            let found = number.or_else(|| find(&fs::read_to_string(file).unwrap_or_default(), name));
            found.map(Some).ok_or_else(|| {
                format!("{key}_{what} = {name}: {file} has no such name: write another one, or the number")
            })
        };
        Ok(Self {
            mode: mode.map(parse).transpose()?,
            owner: id(owner, "owner", "/etc/passwd")?,
            group: id(group, "group", "/etc/group")?,
        })
    }

    /// None if no mode is set.
    pub fn mode(&self) -> Option<Mode> {
        self.mode.map(Mode::from_raw_mode)
    }

    /// Sets owner, group and mode of the file at `path`.
    ///
    /// # Errors
    /// The system refuses it: only root can give a file to another user or to a group of others.
    pub fn apply(&self, path: &Path) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            let (owner, group) = (self.owner.map(Uid::from_raw), self.group.map(Gid::from_raw));
            chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        self.mode.map_or(Ok(()), |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
    }
}

/// Checks that the system can bind a socket to `path`. `key` names the path.
///
/// # Errors
/// It cannot: an address has at most 107 bytes. The text begins with the key.
pub fn check_socket_path(key: &str, path: &Path) -> Result<(), SettingError> {
    SocketAddr::from_pathname(path).map(drop).map_err(|_| {
        let reason = "the path of a socket has at most 107 bytes: write a shorter one";
        format!("{key} = {}: {reason}", path.display()).into()
    })
}

/// Number of `name` in the text of `/etc/passwd` or `/etc/group`.
fn find(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_names_are_parsed_and_others_are_refused_by_key() {
        let access = SocketAccess::new("a.b", Some("0660"), Some("root"), Some("7")).unwrap();
        assert_eq!(access, SocketAccess { mode: Some(0o660), owner: Some(0), group: Some(7) });
        assert_eq!(SocketAccess::new("a.b", None, None, None), Ok(SocketAccess::default()));
        assert_eq!(find("x:y:1\nme:x:1000:1001::/home/me:/bin/sh\n", "me"), Some(1_000));
        for (mode, owner, group, text) in [
            (Some("rw"), None, None, "a.b_mode = rw: "),
            (Some("1777"), None, None, "a.b_mode = 1777: "),
            (Some("8"), None, None, "a.b_mode = 8: "),
            (Some("+7"), None, None, "a.b_mode = +7: "),
            (None, Some("no:body"), None, "a.b_owner = no:body: "),
            (None, None, Some("-1"), "a.b_group = -1: "),
            (None, None, Some("4294967295"), "a.b_group = 4294967295: "),
        ] {
            let error = SocketAccess::new("a.b", mode, owner, group).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused() {
        let path = |length| "s".repeat(length);
        assert_eq!(check_socket_path("a.b", path(107).as_ref()), Ok(()));
        let error = check_socket_path("a.b", path(108).as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("a.b = sss") && error.contains("107"), "{error}");
    }
}
