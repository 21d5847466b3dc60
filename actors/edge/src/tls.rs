//! TLS client. Certificates are checked against the configured authorities, or those of the public web.

use std::{io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
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
    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

/// Creates a connector. `authorities` is a file of certificates (PEM) that are trusted in place of the public ones.
///
/// # Errors
/// The file cannot be read or has no certificate. The text begins with `ca_file = file`.
pub fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = match authorities {
        Some(path) => read(path).map_err(|reason| format!("ca_file = {}: {reason}", path.display()))?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Creates a connector that accepts any certificate. Only for hosts that cannot be impersonated, such as this machine.
///
/// # Errors
/// TLS is not available; the text says why.
pub fn unverified() -> Result<TlsConnector, String> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn unusable(error: Error) -> String {
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

/// Verifier that accepts any certificate, but checks that the server owns its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
