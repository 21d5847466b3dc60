//! TLS client. Certificates are checked against the configured authorities, or those of the public web.

mod certificate;
mod explanation;
#[cfg(test)]
pub(crate) mod tests;
mod verifier;

use std::{fmt::Display, io, path::Path, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, pem::PemObject},
};
pub use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

#[cfg(feature = "mongodb")]
pub(crate) use self::explanation::{certificate_error, show_command};
pub(crate) use self::verifier::Authorities;
use self::verifier::Verifier;
use crate::{PeerError, PeerErrorKind, Sent, SettingError};

/// TLS client of one host.
#[derive(Clone)]
pub struct TlsClient {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsClient {
    /// Creates a client for connections to `host`; None if `host` is not valid in a certificate.
    pub fn new(connector: TlsConnector, host: &str) -> Option<Self> {
        let name = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { connector, name })
    }

    /// Does the TLS handshake on `stream`.
    ///
    /// # Errors
    /// The host does not speak TLS, or its certificate is invalid: the text has the reason and, where it
    /// helps, the command that makes a valid one.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        let connected = self.connector.connect(self.name.clone(), stream).await;
        connected.map_err(|error| explanation::explain(error, &self.name))
    }

    /// Does the same on a connection to the server `at`, `HOST:PORT`.
    ///
    /// # Errors
    /// [`PeerErrorKind::Tls`], with the command that shows the server's certificate as advice.
    pub async fn secure<S>(&self, stream: S, at: impl Display) -> Result<TlsStream<S>, PeerError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.connect(stream).await.map_err(|error| {
            PeerError::new(PeerErrorKind::Tls, Sent::No, format!("TLS: {error}"))
                .with_advice(explanation::show_command(&at, &self.name))
        })
    }
}

/// Creates a connector. `authorities` is a file of certificates (PEM) that are trusted in place of the public
/// ones.
///
/// # Errors
/// The file cannot be read or has no certificate.
pub fn connector(authorities: Option<&Path>) -> Result<TlsConnector, SettingError> {
    let roots = roots(authorities).map_err(|reason| SettingError::Authorities {
        path: authorities.unwrap_or(Path::new("")).to_owned(),
        reason,
    })?;
    Ok(trusting(roots)?)
}

/// Reads a file of certificates (PEM); without one, returns the authorities of the public web.
///
/// # Errors
/// The file cannot be read or has no certificate. The text does not name it.
pub(crate) fn roots(authorities: Option<&Path>) -> Result<Authorities, String> {
    let roots = authorities
        .map_or_else(|| Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }), read)?;
    Ok(Authorities { roots, are_own: authorities.is_some() })
}

/// Creates a connector that checks certificates against `authorities`.
pub(crate) fn trusting(authorities: Authorities) -> Result<TlsConnector, String> {
    verifying(Some(authorities), true)
}

/// As [`trusting`], but whatever host the certificate names.
#[cfg(feature = "postgres")]
pub(crate) fn trusting_for_any_host(authorities: Authorities) -> Result<TlsConnector, String> {
    verifying(Some(authorities), false)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn verifying(authorities: Option<Authorities>, checks_host: bool) -> Result<TlsConnector, String> {
    let verifier = Verifier { authorities, checks_host, provider: provider() };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Creates a connector that accepts any certificate. Only for hosts that cannot be impersonated, such as this
/// machine.
///
/// # Errors
/// TLS is not available; the text says why.
pub fn unverified() -> Result<TlsConnector, SettingError> {
    Ok(verifying(None, false)?)
}

fn unusable(error: impl Display) -> String {
    format!("TLS cannot be used: {error}")
}

fn read(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| format!("cannot be read: {error}"))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| format!("cannot be read: {error}"))?;
        roots.add(certificate).map_err(|error| format!("has a certificate that cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("has no certificate: use a file in PEM format".to_owned());
    }
    Ok(roots)
}
