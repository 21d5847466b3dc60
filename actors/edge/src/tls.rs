//! TLS client. Certificates are checked against the configured authorities, or those of the public web.

use std::{fmt::Display, io, path::Path, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{self, CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
};
pub use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

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
    /// The host does not speak TLS, or its certificate is invalid.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> io::Result<TlsStream<S>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

/// Creates a connector. `authorities` is a file of certificates (PEM) that are trusted in place of the public ones.
///
/// # Errors
/// The file cannot be read or has no certificate. The text begins with `ca_file = file`.
pub fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = roots(authorities).map_err(|reason| {
        format!("ca_file = {}: {reason}", authorities.unwrap_or(Path::new("")).display())
    })?;
    trusting(roots)
}

/// Reads a file of certificates (PEM); without one, returns the authorities of the public web.
///
/// # Errors
/// The file cannot be read or has no certificate. The text does not name it.
pub(crate) fn roots(authorities: Option<&Path>) -> Result<RootCertStore, String> {
    match authorities {
        Some(path) => read(path),
        None => Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() }),
    }
}

/// Creates a connector that checks certificates against `roots`.
pub(crate) fn trusting(roots: RootCertStore) -> Result<TlsConnector, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
    verifying(verifier.build().map_err(unusable)?)
}

/// As [`trusting`], but whatever host the certificate names.
#[cfg(feature = "postgres")]
pub(crate) fn trusting_for_any_host(roots: RootCertStore) -> Result<TlsConnector, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
    let authorities = Some(verifier.build().map_err(unusable)?);
    verifying(Arc::new(AnyHost { authorities, provider: provider() }))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn verifying(verifier: Arc<dyn ServerCertVerifier>) -> Result<TlsConnector, String> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Creates a connector that accepts any certificate. Only for hosts that cannot be impersonated, such as this machine.
///
/// # Errors
/// TLS is not available; the text says why.
pub fn unverified() -> Result<TlsConnector, String> {
    verifying(Arc::new(AnyHost { authorities: None, provider: provider() }))
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

/// Verifier that accepts a certificate for any host, but checks that the server owns its key.
#[derive(Debug)]
struct AnyHost {
    /// Checks who signed the certificate; None: nobody does.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authorities) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        // The name is checked last.
        match authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
