//! The address of the running instance. The first one that is set is used:
//!
//! 1. `--socket` or `--url`;
//! 2. the environment variable `ORCHESTRATOR_SOCKET` or `ORCHESTRATOR_URL`;
//! 3. `$RUNTIME_DIRECTORY/admin.sock`, if it exists: a drop-in under a service manager;
//! 4. `http://127.0.0.1:7117`, the default of `admin.listen`, if something listens there;
//! 5. the only socket `/run/*/admin.sock`.

use std::{
    ffi::OsString,
    fmt,
    io::Write,
    net::TcpStream,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use hyper::Uri;
use orchestrator_edge::{HostPort, read_regular};

use orchestrator_subsystem::CommandError;

const DEFAULT_URL: &str = "http://127.0.0.1:7117";
/// Longest wait for the default address, which is that of this host.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// Options that select the running instance.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to a running instance, for commands that need one")]
pub(crate) struct Target {
    /// Connect to the admin endpoint at this URL [env: ORCHESTRATOR_URL] [default: http://127.0.0.1:7117, or else the only
    /// socket /run/*/admin.sock]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "socket")]
    url: Option<String>,
    /// Connect to the admin endpoint at this unix socket [env: ORCHESTRATOR_SOCKET] [default: $RUNTIME_DIRECTORY/admin.sock, if
    /// it exists]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Read the token for the endpoint from this file
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Address of an admin endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// Host and port, and the prefix of every route.
    Tcp { at: HostPort, prefix: String },
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { at, prefix } => write!(f, "http://{at}{prefix}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Target {
    /// Reads the token, if the command line names a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one token.
    pub(crate) fn token(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let usage =
            |problem: String| CommandError::Usage(format!("--token-file {}: {problem}", path.display()));
        let text =
            read_regular(path).and_then(std::io::read_to_string).map_err(|error| usage(error.to_string()))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage("the file must hold one token and nothing else".to_owned()));
        }
        Ok(Some(token.to_owned()))
    }

    /// Returns the address that a command uses. `env` reads a variable; `run` is `/run`.
    ///
    /// # Errors
    /// The URL is not of the form `http://HOST:PORT`, or several instances are found.
    pub(crate) fn address(
        &self,
        env: impl Fn(&str) -> Option<OsString>,
        run: &Path,
    ) -> Result<Address, CommandError> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        if let Some(path) = &self.socket {
            return Ok(Address::Unix(path.clone()));
        }
        if let Some(url) = &self.url {
            return tcp(url);
        }
        if let Some(path) = env("ORCHESTRATOR_SOCKET") {
            return Ok(Address::Unix(path.into()));
        }
        if let Some(url) = env("ORCHESTRATOR_URL") {
            return tcp(&url.to_string_lossy());
        }
        let socket = env("RUNTIME_DIRECTORY").and_then(|list| runtime_socket(&list));
        socket.map_or_else(|| default_address(DEFAULT_URL, run), |path| Ok(Address::Unix(path)))
    }
}

/// Returns `url` if something listens there, else the only admin socket below `run`.
fn default_address(url: &str, run: &Path) -> Result<Address, CommandError> {
    let default = tcp(url)?;
    let Address::Tcp { at, .. } = &default else { return Ok(default) };
    let listens = at.to_string().parse().is_ok_and(|at| TcpStream::connect_timeout(&at, CONNECT_MAX).is_ok());
    if listens {
        return Ok(default);
    }
    let folders = std::fs::read_dir(run).into_iter().flatten().flatten();
    let sockets = folders.map(|folder| folder.path().join("admin.sock"));
    let is_socket = |path: &PathBuf| path.metadata().is_ok_and(|found| found.file_type().is_socket());
    let mut found: Vec<_> = sockets.filter(is_socket).collect();
    found.sort();
    match &*found {
        [] => Ok(default),
        [path] => {
            let _ = writeln!(
                std::io::stderr().lock(),
                "orchestrator: nothing listens at {at}: using {}",
                path.display()
            );
            Ok(Address::Unix(path.clone()))
        }
        several => {
            let list: Vec<_> = several.iter().map(|path| path.display().to_string()).collect();
            Err(CommandError::Usage(format!(
                "nothing listens at {at}, and there are several instances: name one with --socket: {}",
                list.join(", ")
            )))
        }
    }
}

/// Returns the socket in the first of the directories that has one; systemd joins them with colons.
fn runtime_socket(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_string_lossy();
    list.split(':').map(|directory| PathBuf::from(directory).join("admin.sock")).find(|path| path.exists())
}

fn tcp(url: &str) -> Result<Address, CommandError> {
    let wrong = || {
        CommandError::Usage(format!("`{url}` is not the URL of an admin endpoint: write http://HOST:PORT"))
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(wrong());
    };
    // An IPv6 address is in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let at = HostPort { host, port: uri.port_u16().unwrap_or(80) };
    Ok(Address::Tcp { at, prefix: uri.path().trim_end_matches('/').to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address_or_error(target: &Target, env: &[(&str, &str)]) -> String {
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        target
            .address(lookup, Path::new("/nonexistent"))
            .map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = format!("/nonexistent:{}", dir.path().display());
        let all = [
            ("ORCHESTRATOR_SOCKET", "/s"),
            ("ORCHESTRATOR_URL", "http://h:1"),
            ("RUNTIME_DIRECTORY", &runtime),
        ];
        let (none, empty) = (Target::default(), ("ORCHESTRATOR_SOCKET", ""));
        assert_eq!(address_or_error(&none, &[empty]), DEFAULT_URL);
        assert_eq!(address_or_error(&none, &all[2..]), DEFAULT_URL, "the socket does not exist");
        std::fs::write(dir.path().join("admin.sock"), "").unwrap();
        assert_eq!(address_or_error(&none, &all[2..]), dir.path().join("admin.sock").display().to_string());
        assert_eq!(address_or_error(&none, &all[1..]), "http://h:1");
        assert_eq!(address_or_error(&none, &all), "/s");
        let url = Target { url: Some("http://[::1]/base/".to_owned()), socket: None, ..Target::default() };
        assert_eq!(address_or_error(&url, &all), "http://[::1]:80/base");
        let socket = Target { url: None, socket: Some("/t".into()), ..Target::default() };
        assert_eq!(address_or_error(&socket, &all), "/t");
    }

    #[test]
    fn without_a_default_instance_the_only_socket_is_used() {
        let run = tempfile::tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let found =
            || default_address(&url, run.path()).map_or_else(|error| error.to_string(), |at| at.to_string());
        let socket = |name: &str| {
            let folder = run.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let path = folder.join("admin.sock");
            (path.display().to_string(), std::os::unix::net::UnixListener::bind(&path).unwrap())
        };
        let (first, _first) = socket("a");
        assert_eq!(found(), url, "the default instance wins");
        drop(listener);
        assert_eq!(found(), first);
        std::fs::create_dir(run.path().join("b")).unwrap();
        std::fs::write(run.path().join("b/admin.sock"), "").unwrap();
        assert_eq!(found(), first, "a file is no socket");
        let (second, _second) = socket("c");
        assert!(found().ends_with(&format!("name one with --socket: {first}, {second}")), "{}", found());
    }

    #[test]
    fn a_token_file_holds_one_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let target = Target { token_file: Some(file.path().to_owned()), ..Target::default() };
        for (text, token) in [(" abc\n", Some("abc")), ("", None), ("a b", None), ("a\nb", None)] {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(target.token().ok().flatten().as_deref(), token, "{text:?}");
        }
        assert_eq!(Target::default().token().unwrap(), None);
    }

    #[test]
    fn urls_of_other_schemes_are_refused() {
        for url in ["https://h", "localhost:7117", "", "http://", "ftp://h"] {
            let target = Target { url: Some(url.to_owned()), socket: None, ..Target::default() };
            assert!(address_or_error(&target, &[]).contains("write http://HOST:PORT"), "{url}");
        }
    }
}
