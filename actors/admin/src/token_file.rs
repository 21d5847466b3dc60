//! The tokens file: lines `ROLE NAME TOKEN` and `#` comments. All errors are reported at once. They quote no
//! word of the file, since any word of an invalid line may be the token.

use std::{fs::Metadata, os::unix::fs::MetadataExt, path::Path};

use orchestrator_edge::{exposure, open_secret_file, read_at_most};
use sha2::{Digest, Sha256};

use crate::{AdminError, role::Role};

/// Minimum length of a token, in bytes. Shorter ones could be guessed.
const TOKEN_MIN: usize = 16;
/// Longest name of a token, in bytes.
const NAME_MAX: usize = 64;
/// Largest file, in bytes.
const FILE_MAX: u64 = 256 * 1024;

/// One line, with the digest in place of the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) role: Role,
    pub(crate) name: String,
    pub(crate) digest: [u8; 32],
}

/// Identity of a file's content: device, inode, change and modification time, size.
pub(crate) type FileVersion = (u64, u64, (i64, i64), (i64, i64), u64);

pub(crate) fn version(metadata: &Metadata) -> FileVersion {
    let changed = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.dev(), metadata.ino(), changed, (metadata.mtime(), metadata.mtime_nsec()), metadata.len())
}

pub(crate) fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// The file cannot be read, other users can read it, or a line is invalid.
pub(crate) fn read(path: &Path) -> Result<(FileVersion, Vec<Entry>), AdminError> {
    let unreadable = |source| AdminError::TokensFile { path: path.to_owned(), source };
    let wrong = |problems: Vec<String>| AdminError::Tokens {
        problems: problems.iter().map(|problem| format!("{}{problem}", path.display())).collect(),
    };
    let (file, metadata) = open_secret_file(path).map_err(unreadable)?;
    if let Some(reason) = exposure(&metadata) {
        return Err(wrong(vec![format!(" {reason}")]));
    }
    let text = read_at_most(&file, FILE_MAX).map_err(unreadable)?;
    let entries = parse(&String::from_utf8_lossy(&text)).map_err(wrong)?;
    Ok((version(&metadata), entries))
}

/// Parses `text`. Errors begin with `:LINE: `.
fn parse(text: &str) -> Result<Vec<Entry>, Vec<String>> {
    let (mut entries, mut problems) = (Vec::<Entry>::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let known = |other: &Entry| entries.iter().any(|entry| entry.name == other.name);
        let used = |other: &Entry| entries.iter().any(|entry| entry.digest == other.digest);
        match entry(line) {
            Err(problem) => problems.push(format!(":{}: {problem}", number + 1)),
            Ok(entry) if known(&entry) => {
                problems.push(format!(":{}: an earlier line has this name: use another", number + 1));
            }
            Ok(entry) if used(&entry) => {
                problems.push(format!(":{}: an earlier line has this token: create another one", number + 1));
            }
            Ok(entry) => entries.push(entry),
        }
    }
    if problems.is_empty() { Ok(entries) } else { Err(problems) }
}

fn entry(line: &str) -> Result<Entry, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [role, name, token] = fields.as_slice() else {
        return Err(format!("{} words, expected three: ROLE NAME TOKEN", fields.len()));
    };
    let role = Role::parse(role).ok_or("the role is neither viewer nor operator")?;
    if name.len() > NAME_MAX || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@+".contains(&b)) {
        return Err(format!("the name may have at most {NAME_MAX} letters, digits and -_.@+"));
    }
    if token.len() < TOKEN_MIN {
        return Err(format!("the token is shorter than {TOKEN_MIN} characters: try `openssl rand -hex 32`"));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("the token has characters that are not allowed in a header: use ASCII".to_owned());
    }
    Ok(Entry { role, name: (*name).to_owned(), digest: digest(token.as_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef";

    #[test]
    fn lines_are_read_and_comments_are_skipped() {
        let entries = parse(&format!("# who\n\n viewer eve\t{GOOD}\noperator bob {GOOD}x\n")).unwrap();
        let seen: Vec<_> = entries.iter().map(|entry| (entry.role, entry.name.as_str())).collect();
        assert_eq!(seen, [(Role::Viewer, "eve"), (Role::Operator, "bob")]);
        assert_eq!(entries[0].digest, digest(GOOD.as_bytes()));
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn every_invalid_line_is_reported_without_its_content() {
        let secret = "s3cr3t-s3cr3t-s3cr3t";
        let text = format!(
            "{secret}\nviewer a {GOOD}\nadmin b {secret}\nviewer a {secret}\nviewer c {GOOD}\n\
             viewer d s3cr3t\n{secret} x y\nviewer d {secret} {secret}\nviewer s3cr3t;s3cr3t {secret}é\nviewer e {secret}é\n"
        );
        let problems = parse(&text).unwrap_err();
        let lines: Vec<_> = problems.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
        assert_eq!(lines, [":1", ":3", ":4", ":5", ":6", ":7", ":8", ":9", ":10"], "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.contains("s3cr3t")), "{problems:?}");
    }

    #[test]
    fn a_file_that_other_users_can_read_is_refused() {
        use rustix::process::{getegid, getgroups};
        use std::{
            fs,
            os::unix::fs::{PermissionsExt, chown},
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("viewer a {GOOD}")).unwrap();
        let check = |mode: u32, good: bool| {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let read = read(file.path());
            assert_eq!(read.is_ok(), good, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        };
        // The file has the effective group, as that of a Kubernetes secret with `fsGroup` has one of the
        // others.
        for (mode, good) in [
            (0o600, true),
            (0o400, true),
            (0o440, true),
            (0o640, true),
            (0o444, false),
            (0o604, false),
            (0o620, false),
            (0o660, false),
        ] {
            check(mode, good);
        }
        let groups = getgroups().unwrap();
        let is_own = |gid: u32| groups.iter().chain([&getegid()]).any(|own| own.as_raw() == gid);
        let other = (4_000..).find(|gid| !is_own(*gid)).unwrap();
        // Only root can give a file away.
        if chown(file.path(), None, Some(other)).is_ok() {
            check(0o400, true);
            check(0o440, false);
        }
        let error = super::read(Path::new("/nonexistent/tokens")).unwrap_err().to_string();
        assert!(error.contains("admin.tokens_file"), "{error}");
        assert!(super::read(Path::new("/dev")).is_err());
    }
}
