//! Errors of TLS in plain words, with the command that makes a valid certificate.

use std::io;

use tokio_rustls::rustls::{CertificateError, Error, OtherError, pki_types::ServerName};

/// Replaces the text about a refused certificate of `host`.
pub(super) fn explain(error: io::Error, host: &ServerName<'_>) -> io::Error {
    match certificate_error(&error, host) {
        Some(text) => io::Error::new(error.kind(), text),
        None => error,
    }
}

/// Returns webpki's error in `reason`, of those that rustls does not name.
pub(super) fn of_webpki(reason: &CertificateError) -> Option<&webpki::Error> {
    let CertificateError::Other(OtherError(error)) = reason else { return None };
    error.downcast_ref()
}

/// Returns the reason why the certificate of `host` was refused, and what to do; None if `error` has another cause.
pub(crate) fn certificate_error(error: &io::Error, host: &ServerName<'_>) -> Option<String> {
    let Error::InvalidCertificate(reason) = error.get_ref()?.downcast_ref()? else { return None };
    let why = match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it does not name {} in subjectAltName", host.to_str())
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not for servers (extendedKeyUsage)".to_owned()
        }
        _ => match of_webpki(reason) {
            Some(webpki::Error::CaUsedAsEndEntity) => "it is one of an authority (CA:TRUE)".to_owned(),
            Some(webpki::Error::UnsupportedCertVersion) => "it is of X.509 version 1".to_owned(),
            _ => return Some(format!("invalid peer certificate: {reason}")),
        },
    };
    Some(format!("the certificate is invalid: {why}; make a valid one: {}", command(host)))
}

/// Returns the command that makes a certificate for `host` that is its own authority.
fn command(host: &ServerName<'_>) -> String {
    let (kind, name) = match host {
        ServerName::IpAddress(_) => ("IP", host.to_str()),
        _ => ("DNS", host.to_str()),
    };
    format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout server.key -out server.crt -subj /CN={name} -addext \
         subjectAltName={kind}:{name} -addext basicConstraints=critical,CA:FALSE"
    )
}
