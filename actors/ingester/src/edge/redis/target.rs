//! Address of Redis, and connections to it.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use orchestrator_edge::{
    HostPort, PeerError, PeerErrorKind, SettingError,
    tls::{self, TlsClient},
};
use redis::{Client, ConnectionAddr};
use uuid::Uuid;

use super::{address, connection::Connection};

/// Address of Redis and the identity of this ingester there.
#[derive(Clone)]
pub(crate) struct RedisTarget {
    pub(super) client: Client,
    /// TLS of `rediss://`, with the options of `redis-cli` for it.
    tls: Option<(TlsClient, String)>,
    pub(super) endpoint: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) service_uuid: Uuid,
}

impl RedisTarget {
    /// Parses `redis://[user:password@]host[:port][/db][?options]`, `rediss://` for TLS, or `unix:///path`.
    /// The server's certificate is checked against the authorities in `ca_file` (PEM), or the public ones.
    ///
    /// # Errors
    /// The URL or the file is invalid. The text does not repeat the URL, since it may contain a password.
    pub(crate) fn new(
        url: &str,
        ca_file: Option<&Path>,
        name: &str,
        service_uuid: Uuid,
    ) -> Result<Self, SettingError> {
        // The client library is built without TLS, which the edge does.
        let over_tls = url.strip_prefix("rediss://").map(|rest| format!("redis://{rest}"));
        let client = address::parse(over_tls.as_deref().unwrap_or(url))?;
        let address = client.get_connection_info().addr();
        let tls = match (&over_tls, ca_file, address) {
            (Some(_), _, ConnectionAddr::Tcp(host, _)) => Some(tls_client(host, ca_file)?),
            (_, Some(file), _) => {
                let reason = "for rediss:// only: leave it out".to_owned();
                return Err(SettingError::Authorities { path: file.to_owned(), reason });
            }
            _ => None,
        };
        let endpoint = match address {
            ConnectionAddr::Tcp(host, port) => HostPort { host: host.clone(), port: *port }.to_string(),
            other => other.to_string(),
        };
        let endpoint = endpoint.into();
        Ok(Self { client, tls, endpoint, name: name.into(), service_uuid })
    }

    /// Address without credentials.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Options of `redis-cli` that name this server and database.
    pub(crate) fn cli_options(&self) -> String {
        let info = self.client.get_connection_info();
        let database = info.redis_settings().db();
        match info.addr() {
            ConnectionAddr::Unix(path) => format!("-s {} -n {database}", path.display()),
            tcp => match &self.tls {
                Some((_, options)) => format!("-u rediss://{tcp}/{database}{options}"),
                None => format!("-u redis://{tcp}/{database}"),
            },
        }
    }

    /// Connects. A command may block for `blocking`; a reply may have `reply_max` bytes.
    pub(super) async fn connect(
        &self,
        blocking: Duration,
        reply_max: usize,
    ) -> Result<Connection, PeerError> {
        let tls = self.tls.as_ref().map(|(tls, _)| tls);
        Connection::open(self.client.get_connection_info(), tls, blocking, reply_max).await
    }
}

/// Creates the TLS client of `host`, and the options of `redis-cli` for it.
fn tls_client(host: &str, ca_file: Option<&Path>) -> Result<(TlsClient, String), SettingError> {
    let client = TlsClient::new(tls::connector(ca_file)?, host);
    let client = client.ok_or("its host is no name that a certificate may have")?;
    Ok((client, ca_file.map_or_else(String::new, |file| format!(" --cacert {}", file.display()))))
}

impl fmt::Debug for RedisTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisTarget")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Error of a request to Redis at `endpoint` with the setting to check, and what helps unless the error tells
/// it.
pub(super) fn explained(error: PeerError, endpoint: &str) -> PeerError {
    match error.kind {
        PeerErrorKind::Refused if error.advice.is_none() => error.with_advice(
            "redis-cli ROLE, INFO memory and ACL LIST; check the type of the keys and the user's permissions"
                .to_owned(),
        ),
        PeerErrorKind::Refused => error,
        PeerErrorKind::Tls => error
            .map_text(|text| format!("{text} (Redis at {endpoint}; redis_ca_file names its authorities)")),
        PeerErrorKind::Malformed | PeerErrorKind::TooLarge => error
            .map_text(|text| format!("{text}: the server at {endpoint} does not behave like Redis"))
            .with_advice("correct redis_url".to_owned()),
        _ => error.map_text(|text| {
            format!("{text}: check that Redis runs at {endpoint} and that redis_url is correct")
        }),
    }
}

#[cfg(test)]
mod tests {
    use orchestrator_harness::{CERTIFICATE_CASES, Redis, certificate_file};
    use redis::cmd;

    use super::*;

    fn target(url: &str, ca_file: Option<&Path>) -> Result<RedisTarget, SettingError> {
        RedisTarget::new(url, ca_file, "i", Uuid::nil())
    }

    #[tokio::test]
    async fn the_certificate_of_redis_is_verified() {
        let (redis, ca_file) = (Redis::start_with_tls(), Redis::ca_file());
        let connect = async |url: &str, ca_file: Option<&Path>| {
            let target = target(url, ca_file).expect("a URL");
            target.connect(Duration::ZERO, 1 << 20).await
        };
        let mut connection = connect(&redis.tls_url(), Some(&ca_file)).await.expect("a connection");
        connection.ask(&cmd("PING")).await.expect("an answer");
        for case in &CERTIFICATE_CASES {
            let mut show = cmd("CONFIG");
            show.arg("SET").arg("tls-cert-file").arg(certificate_file(case.shown).display().to_string());
            connection.ask(&show).await.expect("an answer");
            let url = redis.tls_url().replace("localhost", case.host);
            match connect(&url, Some(&certificate_file(case.authority))).await {
                Ok(mut other) => case.judge(other.ask(&cmd("PING")).await.err().map(|it| it.text).as_deref()),
                Err(error) => case.judge(Some(&error.text)),
            }
        }
        // An authority that is not trusted, and another host than that of the certificate.
        let other_host = redis.tls_url().replace("localhost", "127.0.0.1");
        for (url, ca_file) in [(redis.tls_url(), None), (other_host, Some(&*ca_file))] {
            let error = connect(&url, ca_file).await.err().expect(&url);
            assert_eq!(error.kind, PeerErrorKind::Tls, "{url}: {error}");
            let error = explained(error, "localhost");
            assert!(error.text.contains("redis_ca_file"), "{url}: {error}");
            let shows = error.advice.unwrap_or_default();
            assert!(shows.starts_with("openssl s_client -connect "), "{shows}");
        }
    }

    #[test]
    fn tls_is_shown_and_needs_a_readable_file() {
        let ca_file = Redis::ca_file();
        let tls = target("rediss://me:S3CR3T@r:1/2", Some(&ca_file)).expect("a URL");
        assert_eq!(tls.endpoint(), "r:1");
        assert_eq!(tls.cli_options(), format!("-u rediss://r:1/2 --cacert {}", ca_file.display()));
        assert_eq!(target("redis://r:1/2", None).expect("a URL").cli_options(), "-u redis://r:1/2");
        for (url, file, said) in [
            ("rediss://r", "/none", "ca_file = /none: cannot be read"),
            ("redis://r", "/none", "ca_file = /none: for rediss:// only"),
            ("rediss://", "", "not a URL of Redis"),
        ] {
            let file = Some(Path::new(file)).filter(|file| !file.as_os_str().is_empty());
            let text = target(url, file).expect_err(url).to_string();
            assert!(text.starts_with(said), "{text}");
        }
    }
}
