//! The address of the running instance. The first one that is set is used:
//!
//! 1. `--socket` or `--url`;
//! 2. the environment variable `ORCHESTRATOR_SOCKET` or `ORCHESTRATOR_URL`;
//! 3. `$RUNTIME_DIRECTORY/admin.sock`, if it exists: a drop-in under a service manager;
//! 4. the only socket `/run/*/admin.sock` in a directory that others cannot write to, see [`find`];
//! 5. `http://127.0.0.1:7117`, the default of `admin.listen`, if root or the caller listens there.
//!
//! The last two were not named, so they get no token.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use clap::Args;
use hyper::Uri;
use orchestrator_edge::{HostPort, read_text};

use orchestrator_subsystem::CommandError;

use super::{address::Address, found::find};

const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7117);

/// Options that select the running instance.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to a running instance")]
pub(crate) struct Target {
    /// Connect to the admin endpoint at this URL [env: ORCHESTRATOR_URL] [default: the only socket
    /// /run/*/admin.sock, or else http://127.0.0.1:7117, if it is one of root or of you]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "socket")]
    url: Option<String>,
    /// Connect to the admin endpoint at this unix socket [env: ORCHESTRATOR_SOCKET] [default:
    /// $RUNTIME_DIRECTORY/admin.sock, if it exists]
    #[arg(long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Read the token for the endpoint from this file; only an endpoint that is named by --url, --socket or
    /// the environment gets it
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Target {
    /// Reads the token, if the command line names a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one token.
    fn token(&self) -> Result<Option<String>, CommandError> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let usage =
            |problem: String| CommandError::Usage(format!("--token-file {}: {problem}", path.display()));
        let text = read_text(path).map_err(|error| usage(error.to_string()))?;
        let token = text.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(usage("the file must hold one token and nothing else".to_owned()));
        }
        Ok(Some(token.to_owned()))
    }

    /// Reads the token for `address`. A socket that was found needs none.
    ///
    /// # Errors
    /// Those of [`Self::token`], or the address is not named and could get the token.
    pub(crate) fn token_for(
        &self,
        address: &Address,
        is_named: bool,
    ) -> Result<Option<String>, CommandError> {
        let token = self.token()?.filter(|_| is_named || !matches!(address, Address::Unix(_)));
        if token.is_some() && !is_named {
            return Err(CommandError::Usage(format!(
                "--token-file: only an address that is named gets the token: add --url {address} if it is the instance that you mean"
            )));
        }
        Ok(token)
    }

    /// Address that a command uses; true if it is named. `env` reads a variable; `run` is `/run`.
    ///
    /// # Errors
    /// The URL is not of the form `http://HOST:PORT`, several instances are found, or only one of another
    /// user.
    pub(crate) fn address(
        &self,
        env: impl Fn(&str) -> Option<OsString>,
        run: &Path,
    ) -> Result<(Address, bool), CommandError> {
        let env = |name: &str| env(name).filter(|value| !value.is_empty());
        let named = if let Some(path) = &self.socket {
            Address::Unix(path.clone())
        } else if let Some(url) = &self.url {
            tcp(url)?
        } else if let Some(path) = env("ORCHESTRATOR_SOCKET") {
            Address::Unix(path.into())
        } else if let Some(url) = env("ORCHESTRATOR_URL") {
            tcp(&url.to_string_lossy())?
        } else if let Some(path) = env("RUNTIME_DIRECTORY").and_then(|list| runtime_socket(&list)) {
            Address::Unix(path)
        } else {
            return Ok((find(run, DEFAULT)?, false));
        };
        Ok((named, true))
    }
}

/// Socket in the first of the directories that has one; systemd joins them with colons.
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
            .map_or_else(|error| error.to_string(), |(address, _)| address.to_string())
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
        let default = format!("http://{DEFAULT}");
        assert_eq!(address_or_error(&none, &[empty]), default);
        assert_eq!(address_or_error(&none, &all[2..]), default, "the socket does not exist");
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
    fn only_a_named_address_gets_the_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "S3CR3T").unwrap();
        let target = Target { token_file: Some(file.path().to_owned()), ..Target::default() };
        let socket = Address::Unix("/run/a/admin.sock".into());
        let token = Some("S3CR3T".to_owned());
        assert_eq!(target.token_for(&tcp("http://h:1").unwrap(), true).unwrap(), token);
        assert_eq!(target.token_for(&socket, true).unwrap(), token);
        assert_eq!(target.token_for(&socket, false).unwrap(), None, "it needs none");
        let error = target.token_for(&Address::Default(DEFAULT), false).unwrap_err().to_string();
        assert!(error.contains("add --url http://127.0.0.1:7117") && !error.contains("S3CR3T"), "{error}");
    }

    #[test]
    fn urls_of_other_schemes_are_refused() {
        for url in ["https://h", "localhost:7117", "", "http://", "ftp://h"] {
            let target = Target { url: Some(url.to_owned()), socket: None, ..Target::default() };
            assert!(address_or_error(&target, &[]).contains("write http://HOST:PORT"), "{url}");
        }
    }
}
