//! Errors of TLS in plain words, with the command that makes a valid certificate.

use std::{fmt::Display, io};

use jiff::Timestamp;
use tokio_rustls::rustls::{
    CertificateError, Error, OtherError,
    pki_types::{ServerName, UnixTime},
};

/// Replaces the text about a refused certificate of `host`.
pub(super) fn explain(error: io::Error, host: &ServerName<'_>) -> io::Error {
    match certificate_error(&error, host) {
        Some(text) => io::Error::new(error.kind(), text),
        None => error,
    }
}

/// None for errors that rustls names itself.
pub(super) fn of_webpki(reason: &CertificateError) -> Option<&webpki::Error> {
    let CertificateError::Other(OtherError(error)) = reason else { return None };
    error.downcast_ref()
}

/// Reason why the certificate of `host` was refused, and what to do; None if `error` has another cause.
pub(crate) fn certificate_error(error: &io::Error, host: &ServerName<'_>) -> Option<String> {
    let Error::InvalidCertificate(reason) = error.get_ref()?.downcast_ref()? else { return None };
    let why = match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("it does not name {} in subjectAltName", host.to_str())
        }
        CertificateError::Expired => return Some("the certificate has expired; renew it".to_owned()),
        CertificateError::ExpiredContext { not_after, .. } => {
            return Some(format!("the certificate expired on {}; renew it", date(*not_after)));
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            return Some(format!(
                "the certificate is valid from {} on; set the clock, or make another one",
                date(*not_before)
            ));
        }
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

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| "an unknown date".to_owned(), |date| date.to_string())
}

/// Command that shows the certificate of the server `at` for `host`.
pub(crate) fn show_command(at: impl Display, host: &ServerName<'_>) -> String {
    let name = match host {
        ServerName::DnsName(name) => format!(" -servername {}", name.as_ref()),
        _ => String::new(),
    };
    format!("openssl s_client -connect {at}{name} </dev/null | openssl x509 -noout -subject -issuer -dates")
}

/// Command that makes a certificate for `host` that is its own authority.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_date_of_a_certificate_is_a_date_and_the_command_shows_it() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let host = ServerName::try_from("localhost").expect("a name");
        for (reason, text) in [
            (
                CertificateError::ExpiredContext { time: at(1_800_000_000), not_after: at(1_700_000_000) },
                "the certificate expired on 2023-11-14T22:13:20Z; renew it",
            ),
            (
                CertificateError::NotValidYetContext { time: at(1), not_before: at(1_700_000_000) },
                "the certificate is valid from 2023-11-14T22:13:20Z on; set the clock, or make another one",
            ),
        ] {
            let error = io::Error::other(Error::InvalidCertificate(reason));
            assert_eq!(certificate_error(&error, &host).as_deref(), Some(text));
        }
        let dates = "</dev/null | openssl x509 -noout -subject -issuer -dates";
        let shown = show_command("h:6379", &host);
        assert_eq!(shown, format!("openssl s_client -connect h:6379 -servername localhost {dates}"));
        let address = ServerName::try_from("::1").expect("an address");
        assert_eq!(show_command("[::1]:1", &address), format!("openssl s_client -connect [::1]:1 {dates}"));
    }
}
