//! Options of addresses, and peers that a password must not be sent to.

mod notifications;
mod session;

use tokio::net::TcpListener;
use tokio_postgres::{NoTls, config::Host};

use super::{option_error::OptionError, options::ConnectionString, *};

const PASSWORD: &str = "S3CR3T";
const AUTHORITIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peers/tls/ca.pem");
/// Codes of authentication requests.
const CLEARTEXT: i32 = 3;
const MD5: i32 = 5;

/// Parses with these variables and no others.
fn parsed(text: &str, variables: &[(&str, &str)]) -> Result<ConnectionString, OptionError> {
    let value =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    ConnectionString::parse_in(text, &value)
}

#[test]
fn a_service_and_variables_add_what_the_string_lacks() {
    let home = tempfile::tempdir().expect("a directory");
    let path = |name: &str| home.path().join(name).display().to_string();
    std::fs::write(
        path(".pg_service.conf"),
        "# services\n[other]\nhost=wrong\n[mine]\nhost=a\nport=1\nport=2\nuser=service\ndbname=d\n[broken]\nhost\n",
    )
    .expect("write");
    std::fs::write(path("own.conf"), "[mine]\nhost=own\n").expect("write");
    std::fs::write(path("pg_service.conf"), "[machine]\nhost=machine\n").expect("write");
    let (home, own) = (home.path().display().to_string(), path("own.conf"));
    let shown = |text: &str, variables: &[(&str, &str)]| -> Result<String, String> {
        let all = [&[("HOME", home.as_str()), ("PGSYSCONFDIR", &home)], variables].concat();
        let config = parsed(text, &all).map_err(|error| error.to_string())?.config;
        let Host::Tcp(host) = &config.get_hosts()[0] else { panic!("{config:?}") };
        Ok(format!(
            "{host} {:?} {} {:?}",
            config.get_ports(),
            config.get_user().unwrap_or_default(),
            config.get_dbname()
        ))
    };
    for (text, variables, wanted) in [
        ("service=mine", &[][..], "a [1] service Some(\"d\")"),
        ("postgresql://me@?service=mine", &[], "a [1] me Some(\"d\")"),
        ("user=me", &[("PGSERVICE", "mine"), ("PGPORT", "9")], "a [1] me Some(\"d\")"),
        ("service=mine user=me", &[("PGSERVICEFILE", &own), ("PGPORT", "9")], "own [9] me None"),
        ("service=machine user=me", &[("PGSERVICEFILE", &own)], "machine [] me None"),
        ("user=me", &[("PGHOST", "b"), ("PGDATABASE", ""), ("PGUSER", "x")], "b [] me None"),
        ("postgresql://me@c/d", &[("PGPORT", "7"), ("PGHOST", "b")], "c [7] me Some(\"d\")"),
        ("postgresql://me@c/d", &[], "c [5432] me Some(\"d\")"),
        ("postgresql://me@c:8/d", &[("PGPORT", "7")], "c [8] me Some(\"d\")"),
    ] {
        assert_eq!(shown(text, variables).as_deref(), Ok(wanted), "{text} {variables:?}");
    }
    for (text, variables, wanted) in [
        ("service=unknown", &[][..], "that no service file defines"),
        ("service=broken", &[], "line 11 of "),
        ("service=mine", &[("PGSERVICEFILE", "/nowhere/x")], "/nowhere/x cannot be read"),
        ("host=a", &[("PGGSSENCMODE", "require")], "has gssencmode (from PGGSSENCMODE)"),
        ("host=a", &[("PGSSLCERT", "me.pem")], "has sslcert (from PGSSLCERT)"),
        ("host=a target_session_attrs=leader", &[], "another target_session_attrs than any, read-write"),
    ] {
        let error = shown(text, variables).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn options_of_tls_are_taken_out_of_an_address() {
    let encoded = AUTHORITIES.replace('/', "%2F");
    for (address, mode) in [
        ("postgresql://me:S3CR3T@a:1/d".to_owned(), SslMode::Prefer),
        ("postgres://me:S3CR3T@a:1/d?sslmode=disable&application_name=x".to_owned(), SslMode::Disable),
        (
            format!("postgres://me:S3CR3T@a:1/d?%73slmode=verify%2Dca&sslrootcert={encoded}"),
            SslMode::VerifyCa,
        ),
        (format!("postgres://me:S3CR3T@a:1/d?sslrootcert={encoded}&sslmode=require"), SslMode::Require),
        ("postgres://me:S3CR3T@a:1/d?channel_binding=prefer&sslmode=prefer&".to_owned(), SslMode::Prefer),
        ("host=a port=1 user=me password=S3CR3T dbname=d".to_owned(), SslMode::Prefer),
        (
            format!(
                "sslmode = 'verify-full' sslrootcert='{AUTHORITIES}' host=a port=1 user=me password='S3CR3T' dbname=d"
            ),
            SslMode::VerifyFull,
        ),
        (
            r"host=a port=1 user=me password=S3C\R3T dbname='d' sslmode=verify-full sslrootcert=system"
                .to_owned(),
            SslMode::VerifyFull,
        ),
    ] {
        let ConnectionString { config, tls, .. } =
            parsed(&address, &[]).unwrap_or_else(|error| panic!("{address}: {error}"));
        assert_eq!((tls.mode, tls.connector.is_none()), (mode, mode == SslMode::Disable), "{address}");
        assert_eq!(config.get_hosts(), [Host::Tcp("a".to_owned())], "{address}");
        let rest = (config.get_ports(), config.get_user(), config.get_password(), config.get_dbname());
        assert_eq!(rest, (&[1][..], Some("me"), Some(PASSWORD.as_bytes()), Some("d")), "{address}");
    }
}

#[test]
fn options_that_cannot_be_met_are_refused_with_a_reason() {
    for (options, reason) in [
        ("sslmode=allow", "another sslmode than disable, prefer, require, verify-ca, verify-full"),
        ("sslcert=me.pem", "has sslcert"),
        ("channel_binding=require", "has channel_binding"),
        ("sslnegotiation=direct", "has sslnegotiation"),
        ("sslrootcert=system", "has sslmode=prefer for public authorities"),
        ("sslmode=verify-ca", "has sslmode=verify-ca for public authorities"),
        ("sslmode=verify-ca&sslrootcert=/nowhere/ca.pem", "sslrootcert = /nowhere/ca.pem: cannot be read"),
    ] {
        let keywords = format!("host=a password={PASSWORD} {}", options.replace('&', " "));
        for address in [format!("postgresql://me:{PASSWORD}@a/d?{options}"), keywords] {
            let error = parsed(&address, &[]).map(drop).expect_err(options).to_string();
            assert!(error.contains(reason) && !error.contains(PASSWORD), "{address}: {error}");
        }
    }
    for unreadable in ["host=a sslmode", "host=a password='S3CR3T", "postgresql://a/d?sslmode", "host=a x=y"]
    {
        assert_eq!(parsed(unreadable, &[]).map(drop), Err(OptionError::Unreadable), "{unreadable}");
    }
}

/// Authentication request of a server.
fn request(code: i32, salt: &[u8]) -> Vec<u8> {
    let length = 8 + salt.len() as i32;
    [&b"R"[..], &length.to_be_bytes(), &code.to_be_bytes(), salt].concat()
}

/// Connects with `options` to a peer that answers the request for TLS with `answer` and then sends `request`.
/// Returns the error, and the bytes that the peer got after its request.
async fn attack(options: &str, is_local: bool, answer: u8, request: Vec<u8>) -> (String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let address = format!("postgresql://me:{PASSWORD}@127.0.0.1:{port}/d?{options}");
    let Ok(ConnectionString { config, tls, .. }) = parsed(&address, &[]) else { panic!("an address") };
    let asks_for_tls = tls.mode != SslMode::Disable;
    let peer = async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        if asks_for_tls {
            let mut asked = [0; 8];
            stream.read_exact(&mut asked).await.expect("a request for TLS");
            assert_eq!(asked, SSL_REQUEST);
            stream.write_all(&[answer]).await.expect("an answer");
        }
        let mut got = Vec::new();
        let length = stream.read_u32().await.unwrap_or_default().saturating_sub(4);
        let mut startup = vec![0; length as usize];
        if stream.read_exact(&mut startup).await.is_ok() {
            // In pieces: the driver must not see a part of it, either.
            for byte in request {
                stream.write_all(&[byte]).await.expect("a request");
            }
            stream.shutdown().await.expect("the end");
            stream.read_to_end(&mut got).await.expect("what it sends");
        }
        got
    };
    let client = async {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
        let stream =
            tls.secure_peer(stream, "db.example", is_local).await.map_err(|error| error.to_string())?;
        match config.connect_raw(stream, NoTls).await {
            Ok(_) => panic!("the peer does not accept the user"),
            Err(error) => Err::<(), _>(format!("{error:?}")),
        }
    };
    let (got, refused) = tokio::join!(peer, client);
    (refused.expect_err("an error"), got)
}

#[tokio::test]
async fn a_password_in_clear_text_is_sent_only_where_nobody_listens() {
    for (options, is_local, is_sent) in [
        ("", false, false),
        ("sslmode=prefer", false, false),
        ("", true, true),
        ("sslmode=disable", false, true),
    ] {
        let (error, got) = attack(options, is_local, b'N', request(CLEARTEXT, &[])).await;
        let sent = got.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD.as_bytes());
        assert_eq!(sent, is_sent, "{options} {is_local}: {error}");
        if !is_sent {
            assert!(
                got.is_empty() && error.contains("in clear text over a connection without TLS"),
                "{error}"
            );
        }
        let (_, got) = attack(options, is_local, b'N', request(MD5, b"salt")).await;
        assert!(got.windows(3).any(|bytes| bytes == b"md5"), "{options} {is_local}: {got:?}");
    }
}

#[tokio::test]
async fn the_request_for_a_password_is_found_behind_other_messages() {
    let notices = [&b"N\0\0\0\x09text\0"[..], &b"N\0\0\0\x04"[..]].concat();
    let (error, got) = attack("", false, b'N', [notices, request(CLEARTEXT, &[])].concat()).await;
    assert!(got.is_empty(), "{error}");
}

#[tokio::test]
async fn a_peer_without_tls_gets_nothing_where_tls_is_required() {
    for mode in ["require", "verify-ca", "verify-full"] {
        let (error, got) =
            attack(&format!("sslmode={mode}&sslrootcert={AUTHORITIES}"), true, b'N', Vec::new()).await;
        assert!(got.is_empty() && error.contains(&format!("offers no TLS, but sslmode={mode}")), "{error}");
    }
    for options in ["", "sslmode=require"] {
        let (error, got) = attack(options, true, b'E', Vec::new()).await;
        assert!(got.is_empty() && error.contains("does not answer a request for TLS"), "{error}");
    }
}
