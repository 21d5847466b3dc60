//! User to whom the files of a configuration belong. This user may put links, named pipes and a journal
//! there, so root does not open them: it starts this program as the user.

use std::{
    env, fs, io,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use anyhow::{Result, bail};
use rustix::process::geteuid;

use crate::{config::Config, topology};

/// Most links on the way to a file, as in the kernel.
const LINKS_MAX: usize = 40;

/// A user other than root, with its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A failure of the program that was started as the owner. It has reported the error.
#[derive(Debug, thiserror::Error)]
#[error("the program failed as another user: {0}")]
pub(crate) struct Failed(pub(crate) ExitStatus);

/// Owner of what `config` keeps if the program runs as root and the files belong to another user.
///
/// # Errors
/// The files belong to two users.
pub(crate) fn of_state(config: &Config) -> Result<Option<Owner>> {
    let mut found: Option<(Option<Owner>, String)> = None;
    for kept in if geteuid().is_root() { topology::files_to_back_up(config).files } else { Vec::new() } {
        let (owner, exists) = on_the_way(&kept.path)?;
        if owner.is_none() && !exists {
            continue;
        }
        let here = format!("{} at {} to {}", kept.role, kept.path.display(), name(owner));
        match &found {
            Some((other, there)) if other.map(|other| other.uid) != owner.map(|owner| owner.uid) => bail!(
                "{there} and {here}: root works on the files of one user only: give them to one with chown, or run the command as each \
                 user with the subsystems of that user (--only)"
            ),
            Some(_) => {}
            None => found = Some((owner, format!("the files belong to two users: {here}"))),
        }
    }
    Ok(found.and_then(|(owner, _)| owner))
}

/// Last user other than root who has a directory, a link or a file on the way to `path`. That user can
/// exchange the file. The second value is true if the path exists.
///
/// # Errors
/// There are too many links.
pub(crate) fn on_the_way(path: &Path) -> io::Result<(Option<Owner>, bool)> {
    let names =
        |path: &Path| path.components().rev().map(|name| name.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut at, mut owner, mut links) = (PathBuf::new(), None, 0);
    let mut rest = names(&std::path::absolute(path)?);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        let Ok(found) = fs::symlink_metadata(&at) else { return Ok((owner, false)) };
        if found.uid() != 0 {
            // The group of a file may be one of which its owner is no member.
            let group = passwd(found.uid()).and_then(|(_, gid)| gid);
            owner = Some(Owner { uid: found.uid(), gid: group.unwrap_or(found.uid()) });
        }
        if found.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(rustix::io::Errno::LOOP.into());
            }
            rest.extend(names(&fs::read_link(&at)?));
            at.pop();
        }
    }
    Ok((owner, true))
}

/// Name and group of a user.
fn passwd(uid: u32) -> Option<(String, Option<u32>)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|line| line.get(2).is_some_and(|id| id.parse() == Ok(uid)))?;
    Some((line[0].to_owned(), line.get(3).and_then(|gid| gid.parse().ok())))
}

fn name(owner: Option<Owner>) -> String {
    let Some(Owner { uid, .. }) = owner else { return "root".to_owned() };
    passwd(uid).map_or_else(|| format!("user {uid}"), |(name, _)| name)
}

impl Owner {
    /// This command line as a command of the owner, without root's groups.
    pub(crate) fn command(self) -> Command {
        let mut arguments = env::args_os();
        let mut command = Command::new("/proc/self/exe");
        command.arg0(arguments.next().unwrap_or_default()).args(arguments).uid(self.uid).gid(self.gid);
        command
    }

    /// Goes on as the owner, in this process. Returns the error if that is not possible.
    pub(crate) fn go_on(self) -> anyhow::Error {
        self.failed(self.command().exec())
    }

    pub(crate) fn failed(self, error: io::Error) -> anyhow::Error {
        let text = format!("cannot run as {}, who owns the files of the configuration", name(Some(self)));
        anyhow::Error::new(error).context(text)
    }
}
