//! Certificates as OpenSSL accepts them: those of `openssl req -x509`, of version 1, and with a common name
//! only.

use std::path::PathBuf;

use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, SupportedProtocolVersion,
        client::danger::ServerCertVerifier,
        pki_types::{PrivateKeyDer, UnixTime},
        sign::{CertifiedKey, SingleCertAndKey},
        version::{TLS12, TLS13},
    },
};

use super::*;

#[cfg(all(feature = "amqp", feature = "http"))]
mod edges;

pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/tls")).join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(&format!("{name}.pem"))).expect("a certificate")
}

/// Shows the certificate `shown` and speaks only `version` of TLS.
pub(crate) fn server(shown: &str, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
    let key = PrivateKeyDer::from_pem_file(file("server.key")).expect("a key");
    let key = provider().key_provider.load_private_key(key).expect("a key");
    let key = CertifiedKey::new(vec![certificate(shown)], key);
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    TlsAcceptor::from(Arc::new(config))
}

async fn handshake(
    shown: &str,
    connector: TlsConnector,
    host: &str,
    version: &'static SupportedProtocolVersion,
) -> Result<(), String> {
    let client = TlsClient::new(connector, host).expect("a name");
    let (ours, theirs) = tokio::io::duplex(16_384);
    let (connected, _) = tokio::join!(client.connect(ours), server(shown, version).accept(theirs));
    connected.map(drop).map_err(|error| error.to_string())
}

async fn shown(shown: &str, authority: Option<&str>, host: &str) -> Result<(), String> {
    let authority = authority.map(|name| file(&format!("{name}.pem")));
    let connector = || connector(authority.as_deref()).expect("a connector");
    let answers = (
        handshake(shown, connector(), host, &TLS12).await,
        handshake(shown, connector(), host, &TLS13).await,
    );
    assert_eq!(answers.0, answers.1, "versions of TLS");
    answers.0
}

#[tokio::test]
async fn a_certificate_that_openssl_accepts_is_accepted() {
    for (name, authority, host) in [
        ("server", "ca", "localhost"),
        ("self-signed", "self-signed", "localhost"),
        ("self-signed", "self-signed", "LocalHost"),
        ("version-1", "root", "localhost"),
        ("version-1-wildcard", "root", "a.Example.org"),
        ("common-name", "root", "localhost"),
    ] {
        assert_eq!(shown(name, Some(authority), host).await, Ok(()), "{name} by {authority} for {host}");
    }
}

#[tokio::test]
async fn another_certificate_is_refused_with_the_reason() {
    for (name, authority, host, why) in [
        ("server", Some("ca"), "other", "it does not name other in subjectAltName; make"),
        ("server", Some("root"), "localhost", "UnknownIssuer"),
        ("server", Some("server"), "localhost", "UnknownIssuer"),
        ("self-signed", None, "localhost", "it is one of an authority (CA:TRUE); make"),
        ("self-signed", Some("root"), "localhost", "it is one of an authority (CA:TRUE)"),
        ("self-signed", Some("self-signed"), "other", "it does not name other in subjectAltName"),
        ("self-signed", Some("self-signed"), "127.0.0.1", "it does not name 127.0.0.1 in subjectAltName"),
        ("version-1", None, "localhost", "it is of X.509 version 1; make"),
        ("version-1", Some("ca"), "localhost", "it is of X.509 version 1; make"),
        ("version-1", Some("version-1"), "localhost", "it is of X.509 version 1; make"),
        ("version-1", Some("root"), "other", "it does not name other in subjectAltName"),
        ("version-1-wildcard", Some("root"), "example.org", "it does not name example.org"),
        ("version-1-wildcard", Some("root"), "a.b.example.org", "it does not name a.b.example.org"),
        ("common-name", Some("root"), "other", "it does not name other"),
        ("common-name", Some("ca"), "localhost", "UnknownIssuer"),
        ("client-authority", Some("root"), "localhost", "it is not for servers (extendedKeyUsage)"),
    ] {
        let error = shown(name, authority, host).await.expect_err(name);
        assert!(error.contains(why), "{name} by {authority:?} for {host}: {error}");
    }
    let error = shown("version-1", None, "127.0.0.1").await.expect_err("no address");
    assert!(
        error.ends_with(
            "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn any_certificate_is_accepted_unverified() {
    for name in ["self-signed", "version-1", "client-authority"] {
        for version in [&TLS12, &TLS13] {
            let accepted = handshake(name, unverified().expect("a connector"), "other", version).await;
            assert_eq!(accepted, Ok(()), "{name}");
        }
    }
}

fn verify(shown: &[u8], authority: &str, seconds: u64) -> Result<(), String> {
    let authorities = roots(Some(&file(&format!("{authority}.pem")))).expect("an authority");
    let verifier = Verifier { authorities: Some(authorities), checks_host: true, provider: provider() };
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let host = ServerName::try_from("localhost").expect("a name");
    let verified = verifier.verify_server_cert(&shown.into(), &[], &host, &[], now);
    verified.map(drop).map_err(|error| format!("{error:?}"))
}

#[test]
fn dates_are_checked() {
    // From 2020-01-01 to 2120-01-01.
    for (name, authority) in [("self-signed", "self-signed"), ("version-1", "root"), ("common-name", "root")]
    {
        let verify = |seconds| verify(&certificate(name), authority, seconds);
        assert_eq!((verify(1_577_836_800), verify(4_733_510_400)), (Ok(()), Ok(())), "{name}");
        assert!(verify(1_577_836_799).expect_err("early").contains("NotValidYet"), "{name}");
        assert!(verify(4_733_510_401).expect_err("late").contains("Expired"), "{name}");
    }
}

#[test]
fn an_altered_certificate_is_refused() {
    for (name, authority) in [("version-1", "root"), ("self-signed", "self-signed")] {
        let original = certificate(name);
        for index in 0..original.len() {
            for bits in [1, 0x80] {
                let mut altered = original.to_vec();
                altered[index] ^= bits;
                assert!(verify(&altered, authority, 1_800_000_000).is_err(), "{name}: byte {index}");
            }
            assert!(verify(&original[..index], authority, 1_800_000_000).is_err(), "{name}: {index} bytes");
        }
    }
}
