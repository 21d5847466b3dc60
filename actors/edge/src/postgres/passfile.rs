//! libpq's file of passwords: lines `host:port:database:user:password`, where `*` stands for anything.

use std::path::PathBuf;

use super::environment::Variable;
use crate::{exposure, open_secret_file, read_at_most};

/// Largest file, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// A file of passwords. Its content is read for each connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passfile(PathBuf);

impl Passfile {
    /// The file at `path`, or else `~/.pgpass`. None: there is no home directory.
    pub(super) fn new(path: Option<String>, variable: Variable<'_>) -> Option<Self> {
        let path = path.or_else(|| Some(format!("{}/.pgpass", variable("HOME")?)));
        path.map(|path| Self(path.into()))
    }

    /// As in libpq, a file that is missing or that others can read has no password; the latter is logged.
    pub(super) fn password(&self, [host, port, database, user]: [&str; 4]) -> Option<String> {
        let file = self.0.display();
        let (opened, metadata) = open_secret_file(&self.0).ok()?;
        if let Some(reason) = exposure(&metadata) {
            tracing::warn!("the file of passwords {file} is not used: it {reason}");
            return None;
        }
        let text = read_at_most(&opened, FILE_MAX)
            .map_err(|error| tracing::warn!(%file, %error, "the file of passwords is not used"))
            .ok()?;
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let mut rest = line;
            for wanted in [host, port, database, user] {
                let (field, behind) = split_field(rest)?;
                if field.1 != "*" && field.0 != wanted {
                    return None;
                }
                rest = behind?;
            }
            Some(split_field(rest).map(|(field, _)| field.0).unwrap_or_default())
        })
    }
}

/// Splits at the first colon that no backslash quotes. Returns the field, decoded and as written, and the
/// rest.
fn split_field(text: &str) -> Option<((String, &str), Option<&str>)> {
    let (mut field, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            ':' => return Some(((field, &text[..at]), Some(&text[at + 1..]))),
            '\\' => field.extend(chars.next().map(|(_, quoted)| quoted)),
            other => field.push(other),
        }
    }
    Some(((field, text), None))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn the_first_line_that_matches_has_the_password() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(
            file.path(),
            "# h:5432:d:me:comment\nh:5433:*:me:port\nh:*:d:me:S3C\\:R\\\\3T\n*:*:*:you:any:rest\n::1:5432:d:x:bare\n\
             \\:\\:1:5432:d:x:v6\n\\*:1:d:me:star\n",
        )
        .expect("write");
        let path = file.path().display().to_string();
        let passfile = Passfile::new(Some(path.clone()), &|_| None).expect("a file");
        for (server, password) in [
            (["h", "5432", "d", "me"], Some("S3C:R\\3T")),
            (["h", "5433", "e", "me"], Some("port")),
            (["h", "5432", "e", "me"], None),
            (["other", "1", "2", "you"], Some("any")),
            (["::1", "5432", "d", "x"], Some("v6")),
            (["a", "1", "d", "me"], None),
        ] {
            assert_eq!(passfile.password(server).as_deref(), password, "{server:?}");
        }
        fs::set_permissions(file.path(), Permissions::from_mode(0o604)).expect("permissions");
        assert_eq!(passfile.password(["h", "5433", "e", "me"]), None);
        let home = Passfile::new(None, &|name| (name == "HOME").then(|| "/home/me".to_owned()));
        assert_eq!(home, Some(Passfile("/home/me/.pgpass".into())));
        assert_eq!(Passfile::new(None, &|_| None), None);
    }
}
