//! Connection strings of libpq. The driver knows only some of their options.

use std::path::Path;

use tokio_postgres::Config;

use super::{
    PostgresTls, SslMode,
    environment::{self, Variable},
    option_error::OptionError,
    parameters::{Parameter, Parameters},
    passfile::Passfile,
    target_server::TargetServer,
};
use crate::tls;

/// Options of security that this program lacks. Ignoring one would weaken the protection that was asked for.
const UNSUPPORTED: [&str; 17] = [
    "channel_binding",
    "gssencmode",
    "max_protocol_version",
    "min_protocol_version",
    "replication",
    "require_auth",
    "requirepeer",
    "requiressl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslnegotiation",
    "sslpassword",
];
/// Options without a meaning for this program, which has its own keepalive and always uses UTF-8.
const IGNORED: [&str; 11] = [
    "client_encoding",
    "gssdelegation",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "sslcompression",
    "sslsni",
    "tcp_user_timeout",
];
/// Value of `sslrootcert` for the public authorities.
const PUBLIC_AUTHORITIES: &str = "system";

/// A connection string, with what libpq adds to it.
#[derive(Clone)]
pub(super) struct ConnectionString {
    /// Configuration of the driver, which uses connections as they are. It has no password of a passfile.
    pub(super) config: Config,
    /// TLS of the connections.
    pub(super) tls: PostgresTls,
    /// Kind of server that is wanted.
    pub(super) target: TargetServer,
    passfile: Option<Passfile>,
}

impl ConnectionString {
    /// Parses a connection string in libpq's format. The service file, the passfile and `PG*` variables add
    /// to it, as with libpq.
    ///
    /// # Errors
    /// See [`OptionError`]; the service is not defined, or a file cannot be used.
    pub(super) fn parse(text: &str) -> Result<Self, OptionError> {
        Self::parse_in(text, &|name| std::env::var(name).ok())
    }

    pub(super) fn parse_in(text: &str, variable: Variable<'_>) -> Result<Self, OptionError> {
        let mut parameters = Parameters::parse(text).ok_or(OptionError::Unreadable)?;
        environment::fill(&mut parameters, variable)?;
        parameters.fill_port();
        if let Some(name) = parameters.take("fallback_application_name") {
            parameters.fill("application_name", &name, None);
        }
        let passfile = Passfile::new(parameters.take("passfile"), variable);
        let target = parameters
            .take("target_session_attrs")
            .map_or(Ok(TargetServer::Any), |name| TargetServer::parse(&name))?;
        let mode = parameters.take("sslmode").map_or(Ok(SslMode::Prefer), |mode| parse_mode(&mode))?;
        let authorities = parameters.take("sslrootcert");
        let mut of_driver = String::new();
        for Parameter { name, value, variable } in parameters.into_vec() {
            if UNSUPPORTED.contains(&name.as_str()) && !is_met(&name, &value) {
                let from = variable.map(|variable| format!(" (from {variable})")).unwrap_or_default();
                let text =
                    format!("has {name}{from} with a value that this program does not support: leave it out");
                return Err(OptionError::Invalid(text));
            }
            if !UNSUPPORTED.contains(&name.as_str()) && !IGNORED.contains(&name.as_str()) {
                let value = value.replace('\\', r"\\").replace('\'', r"\'");
                of_driver += &format!("{name}='{value}' ");
            }
        }
        let mut config: Config = of_driver.parse().map_err(|_| OptionError::Unreadable)?;
        config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        if let Some(user) = config.get_user().is_none().then(own_user).flatten() {
            config.user(user);
        }
        let connector = connector(mode, authorities.as_deref()).map_err(OptionError::Invalid)?;
        Ok(Self { config, tls: PostgresTls { mode, connector }, target, passfile })
    }

    /// `host` is the name of the server as in the string, or `localhost` for the default socket. Without a
    /// password in the string, that of the passfile is used.
    pub(super) fn config_for(&self, host: &str, port: u16) -> Config {
        let mut config = self.config.clone();
        let user = config.get_user().unwrap_or_default();
        let database = config.get_dbname().unwrap_or(user);
        let password = match (config.get_password(), &self.passfile) {
            (None, Some(passfile)) => passfile.password([host, &port.to_string(), database, user]),
            _ => None,
        };
        if let Some(password) = password {
            config.password(password);
        }
        config
    }
}

fn own_user() -> Option<String> {
    let (uid, users) =
        (rustix::process::geteuid().as_raw().to_string(), std::fs::read_to_string("/etc/passwd").ok()?);
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&uid)).then(|| name.to_owned())
    })
}

/// This program meets these values of other options as it is.
fn is_met(name: &str, value: &str) -> bool {
    matches!(
        (name, value),
        ("channel_binding", "disable" | "prefer")
            | ("gssencmode", "disable" | "prefer")
            | ("max_protocol_version", "3.0" | "latest")
            | ("min_protocol_version", "3.0")
            | ("sslcertmode", "disable" | "allow")
            | ("sslnegotiation", "postgres")
    )
}

fn parse_mode(value: &str) -> Result<SslMode, OptionError> {
    SslMode::ALL.into_iter().find(|(name, _)| *name == value).map(|(_, mode)| mode).ok_or_else(|| {
        let names = SslMode::ALL.map(|(name, _)| name).join(", ");
        OptionError::Invalid(format!("has another sslmode than {names}: write one of them"))
    })
}

/// Creates the connector of `mode`. As in libpq, a file of authorities makes weaker modes check certificates,
/// too.
fn connector(mode: SslMode, authorities: Option<&str>) -> Result<Option<tokio_rustls::TlsConnector>, String> {
    let is_public = authorities.is_none_or(|path| path == PUBLIC_AUTHORITIES);
    if is_public && (authorities.is_some() || mode == SslMode::VerifyCa) && mode != SslMode::VerifyFull {
        let because = "anybody can get a certificate of a public authority";
        let advice = "name a file in sslrootcert, or write sslmode=verify-full";
        return Err(format!("has sslmode={} for public authorities: {because}: {advice}", mode.name()));
    }
    let file = authorities.filter(|_| !is_public).map(Path::new);
    let connector = match mode {
        SslMode::Disable => return Ok(None),
        SslMode::Prefer | SslMode::Require if authorities.is_none() => {
            tls::unverified().map_err(String::from)
        }
        SslMode::VerifyFull => tls::roots(file).and_then(tls::trusting),
        SslMode::Prefer | SslMode::Require | SslMode::VerifyCa => {
            tls::roots(file).and_then(tls::trusting_for_any_host)
        }
    };
    let named = |reason| match file {
        Some(file) => format!("has sslrootcert = {}: {reason}", file.display()),
        None => reason,
    };
    connector.map(Some).map_err(named)
}
