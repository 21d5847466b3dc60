//! Search for the running instance if no address is named. Any user of the machine can listen somewhere and
//! give wrong answers. So an instance is used only if it belongs to root, to the caller, or to the user to
//! whom root gave a directory `/run/orchestrator*`, as systemd does. Directories with other names may belong
//! to other programs.

use std::{
    fs::{Metadata, symlink_metadata},
    net::SocketAddr,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use orchestrator_admin::listening_users;
use orchestrator_edge::SocketListener;
use orchestrator_subsystem::CommandError;
use rustix::process::geteuid;

use super::address::Address;

/// Beginning of the names of directories for this program.
const OURS: &[u8] = b"orchestrator";

/// Socket that was found, in a directory that others cannot write to.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    path: PathBuf,
    access: Access,
}

/// Result of an attempt to connect to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The listener may be used.
    Trusted,
    /// The listener belongs to this user.
    Foreign(u32),
    /// The caller may not connect.
    Denied,
}

/// The only socket `admin.sock` in a directory of `run`, else the default address `at`.
///
/// # Errors
/// There are several sockets, or the only listener belongs to another user.
pub(super) fn find(run: &Path, at: SocketAddr) -> Result<Address, CommandError> {
    let sockets = sockets(run);
    let trusted: Vec<_> = sockets.iter().filter(|socket| socket.access == Access::Trusted).collect();
    let paths: Vec<_> = trusted.iter().map(|socket| socket.path.display().to_string()).collect();
    match &*trusted {
        [] => {}
        [socket] => return Ok(Address::Unix(socket.path.clone())),
        _ => {
            let list = paths.join(", ");
            return Err(CommandError::Usage(format!(
                "there are several instances: name one with --socket: {list}"
            )));
        }
    }
    let first = sockets.into_iter().next().filter(|_| listening_users(at).is_empty());
    match first {
        Some(Socket { path, access: Access::Foreign(user) }) => Err(CommandError::Usage(format!(
            "user {user} listens at {}, and is neither root nor you: if it is the instance that you mean, name it with --socket",
            path.display()
        ))),
        // The error of the connection names the reason.
        Some(Socket { path, .. }) => Ok(Address::Unix(path)),
        None => Ok(Address::Default(at)),
    }
}

/// Checks that only root and the caller listen at `at`, an address of this host.
///
/// # Errors
/// Another user does.
pub(super) fn check_listener(at: SocketAddr) -> Result<(), String> {
    let foreign = listening_users(at).into_iter().find(|user| !is_own(*user));
    foreign.map_or(Ok(()), |user| Err(format!("user {user} listens there, and is neither root nor you")))
}

/// Sockets with a listener in the directories of `run`, by path.
fn sockets(run: &Path) -> Vec<Socket> {
    let Ok(parent) = symlink_metadata(run) else { return Vec::new() };
    let folders = std::fs::read_dir(run).into_iter().flatten().flatten().map(|folder| folder.path());
    let mut found: Vec<_> = folders.filter_map(|folder| socket(&parent, &folder)).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn socket(parent: &Metadata, folder: &Path) -> Option<Socket> {
    let path = folder.join("admin.sock");
    let (directory, file) = (symlink_metadata(folder).ok()?, symlink_metadata(&path).ok()?);
    let owner = file.uid();
    let is_safe = is_kept(parent.uid(), parent.mode(), owner)
        && directory.is_dir()
        && is_private(directory.uid(), directory.mode(), owner);
    if !is_safe || !file.file_type().is_socket() {
        return None;
    }
    // Only root can have given it to that user, for this program.
    let is_ours = folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(OURS));
    let is_given = is_ours && is_private(parent.uid(), parent.mode(), 0);
    let access = match SocketListener::at(&path)? {
        SocketListener::Of(user) if is_own(user) || is_given && user == directory.uid() => Access::Trusted,
        SocketListener::Of(user) => Access::Foreign(user),
        SocketListener::Busy | SocketListener::Denied => Access::Denied,
    };
    Some(Socket { path, access })
}

/// True if only root and the user `owner` can write to a directory with this owner and mode.
fn is_private(directory: u32, mode: u32, owner: u32) -> bool {
    (directory == 0 || directory == owner) && mode & 0o022 == 0
}

/// True if only root and the user `owner` can replace an entry of `owner` in a directory with this owner and
/// mode. In a directory of root with the sticky bit, others may only add entries.
fn is_kept(directory: u32, mode: u32, owner: u32) -> bool {
    is_private(directory, mode, owner) || directory == 0 && mode & 0o1000 != 0
}

fn is_own(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{Permissions, create_dir, set_permissions, write},
        os::unix::{
            fs::{PermissionsExt, symlink},
            net::UnixListener,
        },
    };

    use super::*;

    #[test]
    fn others_must_not_be_able_to_put_a_socket_there() {
        // The last two: the directory of the socket may be such, and the one above it.
        for (directory, mode, owner, private, kept) in [
            (0, 0o755, 0, true, true),
            (0, 0o755, 5, true, true),
            (5, 0o750, 5, true, true),
            (5, 0o700, 5, true, true),
            (5, 0o755, 0, false, false),
            (6, 0o755, 5, false, false),
            (0, 0o1777, 0, false, true),
            (0, 0o1777, 5, false, true),
            (5, 0o1777, 5, false, false),
            (0, 0o777, 5, false, false),
            (0, 0o775, 0, false, false),
            (5, 0o757, 5, false, false),
        ] {
            let found = (is_private(directory, mode, owner), is_kept(directory, mode, owner));
            assert_eq!(found, (private, kept), "{directory} {mode:o} {owner}");
        }
    }

    #[test]
    fn the_only_socket_in_a_private_directory_is_used() {
        let run = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = free.local_addr().unwrap();
        let found = || find(run.path(), at).map_or_else(|error| error.to_string(), |at| at.to_string());
        let directory = |name: &str, mode: u32| {
            let folder = run.path().join(name);
            create_dir(&folder).unwrap();
            set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            folder.join("admin.sock")
        };
        let default = format!("http://{at}");
        assert_eq!(found(), default);
        write(directory("file", 0o755), "").unwrap();
        drop(UnixListener::bind(directory("stale", 0o755)).unwrap());
        let _public = UnixListener::bind(directory("public", 0o1777)).unwrap();
        let _group = UnixListener::bind(directory("group", 0o775)).unwrap();
        symlink(run.path(), run.path().join("link")).unwrap();
        let _linked = UnixListener::bind(run.path().join("admin.sock")).unwrap();
        assert_eq!(found(), default, "none of them counts");
        let first = directory("first", 0o755);
        let _first = UnixListener::bind(&first).unwrap();
        assert_eq!(found(), first.display().to_string(), "a socket comes before the default address");
        let second = directory("second", 0o700);
        let _second = UnixListener::bind(&second).unwrap();
        let several = format!("name one with --socket: {}, {}", first.display(), second.display());
        assert!(found().ends_with(&several), "{}", found());
        set_permissions(run.path(), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(found(), default, "others can replace the directories");
    }

    #[test]
    fn a_listener_of_the_caller_passes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(check_listener(listener.local_addr().unwrap()), Ok(()));
    }
}
