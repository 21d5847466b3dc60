//! Certificates that each edge with TLS is tried with.

use std::path::PathBuf;

use crate::python::peers;

/// Certificate of a server, and what a client makes of it.
#[derive(Debug)]
pub struct CertificateCase {
    /// Certificate that the server shows, for [`certificate_file`].
    pub shown: &'static str,
    /// Certificate of the client's authority.
    pub authority: &'static str,
    /// Host that the client asks for.
    pub host: &'static str,
    /// Part of the client's error; None if the certificate is accepted, as OpenSSL accepts it.
    pub refused: Option<&'static str>,
}

impl CertificateCase {
    const fn accepted(shown: &'static str, authority: &'static str) -> Self {
        Self { shown, authority, host: "localhost", refused: None }
    }

    /// Asserts that a client that was told `error`, or None if it connected, has judged as it should.
    ///
    /// # Panics
    /// If it has not.
    pub fn judge(&self, error: Option<&str>) {
        match (self.refused, error) {
            (None, None) => {}
            (Some(reason), Some(error)) => assert!(error.contains(reason), "{self:?}: {error}"),
            _ => panic!("{self:?}: {error:?}"),
        }
    }
}

/// The cases; those with the same certificate are neighbours.
pub const CERTIFICATE_CASES: [CertificateCase; 6] = [
    CertificateCase::accepted("server", "ca"),
    CertificateCase { refused: Some("UnknownIssuer"), ..CertificateCase::accepted("server", "root") },
    CertificateCase::accepted("self-signed", "self-signed"),
    CertificateCase::accepted("version-1", "root"),
    CertificateCase {
        host: "127.0.0.1",
        refused: Some("it does not name 127.0.0.1 in subjectAltName; make"),
        ..CertificateCase::accepted("version-1", "root")
    },
    CertificateCase::accepted("common-name", "root"),
];

/// File of the certificate `name` in `tests/peers/tls`.
pub fn certificate_file(name: &str) -> PathBuf {
    peers().join("tls").join(name).with_extension("pem")
}
