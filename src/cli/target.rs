//! Which running instance a client command talks to.
//!
//! | First that applies | |
//! |---|---|
//! | `--socket`, `--url` | said on the command line |
//! | `ORCHESTRATOR_SOCKET`, `ORCHESTRATOR_URL` | said in the environment |
//! | `$RUNTIME_DIRECTORY/admin.sock` | if it is there: a drop-in under a service manager |
//! | `http://127.0.0.1:7117` | the default of `[admin] listen` |

use std::{ffi::OsString, fmt, path::PathBuf};

use clap::Args;
use hyper::Uri;
use orchestrator_edge::HostPort;

use orchestrator_subsystem::CommandError;

const DEFAULT_URL: &str = "http://127.0.0.1:7117";

/// Where the running instance is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which running instance to talk to")]
pub(crate) struct Target {
    /// Its admin endpoint over TCP [env: ORCHESTRATOR_URL] [default: http://127.0.0.1:7117]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "socket")]
    url: Option<String>,
    /// Its admin socket [env: ORCHESTRATOR_SOCKET] [default: $RUNTIME_DIRECTORY/admin.sock, if it is there]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// A file with the token for an endpoint that asks for one
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A checked address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// Host and port, and what comes before every route.
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
    /// The token to show, if one was given.
    ///
    /// # Errors
    /// The file cannot be read, or holds no token.
    pub(crate) fn token(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let usage =
            |problem: String| CommandError::Usage(format!("--token-file {}: {problem}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| usage(error.to_string()))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage("put the token there and nothing else".to_owned()));
        }
        Ok(Some(token.to_owned()))
    }

    /// The address that a command uses.
    ///
    /// # Errors
    /// The URL is not one that can be spoken to.
    pub(crate) fn address(&self, env: impl Fn(&str) -> Option<OsString>) -> Result<Address, CommandError> {
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
        socket.map_or_else(|| tcp(DEFAULT_URL), |path| Ok(Address::Unix(path)))
    }
}

/// systemd joins several runtime directories with colons.
fn runtime_socket(list: &std::ffi::OsStr) -> Option<PathBuf> {
    let list = list.to_string_lossy();
    list.split(':').map(|directory| PathBuf::from(directory).join("admin.sock")).find(|path| path.exists())
}

fn tcp(url: &str) -> Result<Address, CommandError> {
    let wrong = || CommandError::Usage(format!("`{url}` is no url of an endpoint: write http://HOST:PORT"));
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(wrong());
    };
    // An IPv6 address stands in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let at = HostPort { host, port: uri.port_u16().unwrap_or(80) };
    Ok(Address::Tcp { at, prefix: uri.path().trim_end_matches('/').to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(target: &Target, env: &[(&str, &str)]) -> String {
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
        target.address(lookup).map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    #[test]
    fn the_command_line_wins_over_the_environment_over_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = format!("/nonexistent:{}", dir.path().display());
        let all = [
            ("ORCHESTRATOR_SOCKET", "/s"),
            ("ORCHESTRATOR_URL", "http://h:1"),
            ("RUNTIME_DIRECTORY", &runtime),
        ];
        let (none, empty) = (Target::default(), ("ORCHESTRATOR_SOCKET", ""));
        assert_eq!(shown(&none, &[empty]), DEFAULT_URL);
        assert_eq!(shown(&none, &all[2..]), DEFAULT_URL, "no socket there yet");
        std::fs::write(dir.path().join("admin.sock"), "").unwrap();
        assert_eq!(shown(&none, &all[2..]), dir.path().join("admin.sock").display().to_string());
        assert_eq!(shown(&none, &all[1..]), "http://h:1");
        assert_eq!(shown(&none, &all), "/s");
        let url = Target { url: Some("http://[::1]/base/".to_owned()), socket: None, ..Target::default() };
        assert_eq!(shown(&url, &all), "http://[::1]:80/base");
        let socket = Target { url: None, socket: Some("/t".into()), ..Target::default() };
        assert_eq!(shown(&socket, &all), "/t");
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
    fn other_urls_are_refused() {
        for url in ["https://h", "localhost:7117", "", "http://", "ftp://h"] {
            let target = Target { url: Some(url.to_owned()), socket: None, ..Target::default() };
            assert!(shown(&target, &[]).contains("write http://HOST:PORT"), "{url}");
        }
    }
}
