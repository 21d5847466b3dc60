//! Verification of the server's certificate, as webpki and, with authorities of the operator, as OpenSSL does
//! it.

use std::sync::Arc;

use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{self, CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::{certificate::Certificate, explanation::of_webpki};

/// Authorities of server certificates.
#[derive(Debug)]
pub(crate) struct Authorities {
    pub(super) roots: RootCertStore,
    /// True if the operator chose them. Then three more are accepted: a certificate that is one of them, one
    /// of version 1 that one of them signed, and a common name in place of an alternative name.
    pub(super) are_own: bool,
}

/// Verifier of certificates. It always checks that the server owns the key.
#[derive(Debug)]
pub(super) struct Verifier {
    /// None: any certificate is accepted.
    pub(super) authorities: Option<Authorities>,
    /// False accepts a certificate for any host.
    pub(super) checks_host: bool,
    pub(super) provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.provider.signature_verification_algorithms
    }

    /// Verifies the handshake's signature with the key of a certificate that is not parsed by webpki, which
    /// failed with `error` only after it had checked the scheme. The first `count` algorithms of the scheme
    /// are tried.
    fn verify_with_version_1(
        &self,
        error: Error,
        count: usize,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = Certificate::parse(certificate).filter(|_| is_strict(&error)).ok_or(error)?;
        let suitable = self.algorithms().mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let suitable = suitable.flat_map(|(_, algorithms)| algorithms.iter().take(count));
        if certificate.has_signed(suitable, message, signed.signature()) {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }
}

impl Authorities {
    fn verify_chain(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(end_entity);
        let verified = parsed.and_then(|parsed| {
            let roots = &self.roots;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms.all)
        });
        verified.or_else(|error| {
            // Other errors are final, such as those of dates and critical extensions.
            let certificate = Certificate::parse(end_entity).filter(|_| self.are_own && is_strict(&error));
            let issued = certificate.and_then(|it| it.verify_issued_by(&self.roots.roots, now, algorithms));
            issued.ok_or(error)?.map_err(Error::InvalidCertificate)
        })
    }

    fn verify_name(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
    ) -> Result<(), Error> {
        // A certificate of version 1 has no alternative names.
        let named = ParsedCertificate::try_from(end_entity).map_or_else(
            |_| Err(CertificateError::NotValidForName.into()),
            |parsed| verify_server_name(&parsed, host),
        );
        // webpki applies name constraints to alternative names only.
        let is_free = || {
            self.roots.roots.iter().all(|root| root.name_constraints.is_none())
                && intermediates
                    .iter()
                    .all(|it| Certificate::parse(it).is_some_and(|it| !it.constrains_names()))
        };
        let certificate =
            Certificate::parse(end_entity).filter(|_| named.is_err() && self.are_own && is_free());
        match (host, certificate) {
            (ServerName::DnsName(host), Some(certificate)) if certificate.is_commonly_named(host) => Ok(()),
            _ => named,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            authorities.verify_chain(end_entity, intermediates, now, self.algorithms())?;
            if self.checks_host {
                authorities.verify_name(end_entity, intermediates, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = crypto::verify_tls12_signature(message, cert, dss, self.algorithms());
        verified.or_else(|error| self.verify_with_version_1(error, usize::MAX, message, cert, dss))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = crypto::verify_tls13_signature(message, cert, dss, self.algorithms());
        // A scheme of TLS 1.3 means one algorithm, the first.
        verified.or_else(|error| self.verify_with_version_1(error, 1, message, cert, dss))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

/// webpki alone refuses certificates for these reasons; OpenSSL accepts them.
fn is_strict(error: &Error) -> bool {
    let Error::InvalidCertificate(reason) = error else { return false };
    matches!(
        of_webpki(reason),
        Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnsupportedCertVersion)
    )
}
