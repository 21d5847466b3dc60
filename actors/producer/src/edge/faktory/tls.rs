//! TLS towards a server: its certificate is checked against the given authorities, or against those of the public web.

use std::{path::Path, sync::Arc};

use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, pem::PemObject},
    },
};

/// What makes connections secure. `authorities` is a file of certificates (PEM) that are trusted in place of the public ones.
///
/// # Errors
/// The file cannot be read, or has no certificate; the text says so.
pub(super) fn connector(authorities: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = match authorities {
        Some(path) => read(path).map_err(|reason| format!("ca_file = {}: {reason}", path.display()))?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
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
        return Err("has no certificate: give a file in PEM".to_owned());
    }
    Ok(roots)
}
