//! Options of TLS in a PostgreSQL address. The driver knows only some of them.

use std::path::Path;

use tokio_postgres::Config;

use super::{PostgresTls, SslMode};
use crate::tls;

/// Options with values that this program lacks. Ignoring one would weaken the protection that was asked for.
const UNSUPPORTED: [&str; 13] = [
    "channel_binding",
    "gssencmode",
    "require_auth",
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
/// Value of `sslrootcert` for the public authorities.
const PUBLIC_AUTHORITIES: &str = "system";

/// Error in an address. It repeats no part of the address but names of options and of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// It is neither a URL nor a list of options.
    #[error("cannot be read")]
    Unreadable,
    /// An option of TLS is not supported, or its value is wrong.
    #[error("{0}")]
    Invalid(String),
}

impl PostgresTls {
    /// Splits an address in libpq's format into the configuration of the driver, which then uses connections as they are, and TLS.
    ///
    /// # Errors
    /// See [`OptionError`]; the file of authorities cannot be used.
    pub fn split(address: &str) -> Result<(Config, Self), OptionError> {
        let (rest, options) = take_options(address).ok_or(OptionError::Unreadable)?;
        let mut config: Config = rest.parse().map_err(|_| OptionError::Unreadable)?;
        config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        let (mut mode, mut authorities) = (SslMode::Prefer, None);
        for (name, value) in options {
            match name.as_str() {
                "sslmode" => mode = parse_mode(&value)?,
                "sslrootcert" => authorities = Some(value),
                _ if is_met(&name, &value) => {}
                _ => {
                    let text =
                        format!("has {name} with a value that this program does not support: leave it out");
                    return Err(OptionError::Invalid(text));
                }
            }
        }
        let connector = connector(mode, authorities.as_deref()).map_err(OptionError::Invalid)?;
        Ok((config, Self { mode, connector }))
    }
}

/// Returns true for values of other options that this program meets as it is.
fn is_met(name: &str, value: &str) -> bool {
    matches!(
        (name, value),
        ("channel_binding", "disable" | "prefer")
            | ("gssencmode", "disable" | "prefer")
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

/// Creates the connector of `mode`. As in libpq, a file of authorities makes weaker modes check certificates, too.
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
        SslMode::Prefer | SslMode::Require if authorities.is_none() => tls::unverified(),
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

/// Takes the options of TLS out of an address, decoded. None: it cannot be read.
fn take_options(address: &str) -> Option<(String, Vec<(String, String)>)> {
    let is_ours = |name: &str| name == "sslmode" || name == "sslrootcert" || UNSUPPORTED.contains(&name);
    if !["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme)) {
        let (ours, others): (Vec<_>, Vec<_>) =
            keywords(address)?.into_iter().partition(|(name, _)| is_ours(name));
        let quoted = |value: &str| value.replace('\\', r"\\").replace('\'', r"\'");
        let others = others.iter().map(|(name, value)| format!("{name}='{}' ", quoted(value)));
        return Some((others.collect(), ours));
    }
    let Some((base, query)) = address.split_once('?') else { return Some((address.to_owned(), Vec::new())) };
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=')?;
        let name = percent_decoded(name)?;
        if is_ours(&name) {
            ours.push((name, percent_decoded(value)?));
        } else {
            others.push(option);
        }
    }
    Some((format!("{base}?{}", others.join("&")), ours))
}

/// Parses `name=value name='other value'`, where a backslash quotes the next character.
fn keywords(address: &str) -> Option<Vec<(String, String)>> {
    let mut chars = address.chars().peekable();
    let mut options = Vec::new();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| !c.is_whitespace() && *c != '=') {
            name.push(c);
        }
        if name.is_empty() {
            return chars.peek().is_none().then_some(options);
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        chars.next_if_eq(&'=')?;
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = chars.next_if_eq(&'\'').is_some();
        let ends = |c: char| if is_quoted { c == '\'' } else { c.is_whitespace() };
        let mut value = String::new();
        while let Some(c) = chars.next_if(|c| !ends(*c)) {
            value.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        if is_quoted {
            chars.next_if_eq(&'\'')?;
        } else if value.is_empty() {
            return None;
        }
        options.push((name, value));
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).ok()
}
