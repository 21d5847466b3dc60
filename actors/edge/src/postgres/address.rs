//! Address of a database, checked before the driver sees it. No text repeats it, since it may contain a
//! password.

use std::{fmt, time::Duration};

use tokio_postgres::{Config, config::Host};

use super::{
    PostgresTls, advice::Login, option_error::OptionError, options::ConnectionString,
    postgres_error::PostgresError, target_server::TargetServer,
};

/// Directory of the server's unix socket for an address without a host: libpq's default in Debian and Fedora.
const SOCKET_DIRECTORY: &str = "/var/run/postgresql";
/// Advice for an invalid address.
const FORM: &str = "write postgresql://USER@HOST:PORT/DATABASE, or host=.. port=.. user=.. dbname=.., special characters of a user or a password in a URL as %XX";

/// Checked address of a database.
#[derive(Clone)]
pub struct Address(ConnectionString);

impl Address {
    /// Parses `dsn` in libpq's format: a URL, or keywords. The service file, the passfile and `PG*` variables
    /// add to it, as with libpq. `application` is the application name unless the address has one.
    ///
    /// # Errors
    /// `dsn` is invalid, or its options cannot be met. The text repeats no part of it but names of options
    /// and of files.
    pub fn parse(dsn: &str, application: &'static str) -> Result<Self, PostgresError> {
        let refused = |what: &str| PostgresError::of_address(&format!("{what}: {FORM}"));
        let mut string = ConnectionString::parse(dsn).map_err(|error| match error {
            OptionError::Unreadable => refused("cannot be read"),
            OptionError::Invalid(text) => PostgresError::of_address(&text),
        })?;
        // In `user:a/b@host` a part of the password is parsed as the database.
        if let Some((_, rest)) = dsn.split_once("://")
            && rest.split_once(['/', '?']).is_some_and(|(_, behind)| behind.contains('@'))
        {
            return Err(refused("has a bare @ behind its host"));
        }
        let config = &mut string.config;
        let (hosts, addresses) = (config.get_hosts().len(), config.get_hostaddrs().len());
        if hosts.max(addresses) == 0 {
            if config.get_dbname().is_none() {
                return Err(refused("names neither a host nor a database"));
            }
            config.host_path(SOCKET_DIRECTORY);
        }
        let ports = config.get_ports().len();
        if (hosts > 0 && addresses > 0 && hosts != addresses) || (ports > 1 && ports != hosts.max(addresses))
        {
            return Err(refused("does not have as many ports or host addresses as hosts"));
        }
        if config.get_application_name().is_none() {
            config.application_name(application);
        }
        Ok(Self(string))
    }

    pub(super) fn config(&self) -> &Config {
        &self.0.config
    }

    /// Includes the password.
    pub(super) fn config_for(&self, host: &str, port: u16) -> Config {
        self.0.config_for(if host == SOCKET_DIRECTORY { "localhost" } else { host }, port)
    }

    pub(super) fn login(&self) -> Login {
        Login::of(self.config())
    }

    pub(super) fn tls(&self) -> &PostgresTls {
        &self.0.tls
    }

    pub(super) fn target(&self) -> TargetServer {
        self.0.target
    }

    pub(super) fn connect_timeout(&self, most: Duration) -> Duration {
        self.config().get_connect_timeout().copied().filter(|span| !span.is_zero()).unwrap_or(most).min(most)
    }
}

/// Writes hosts, ports and database only.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config();
        let hosts = config.get_hosts().iter().map(|host| match host {
            Host::Tcp(host) if host.contains(':') => format!("[{host}]"),
            Host::Tcp(host) => host.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = if config.get_hosts().is_empty() {
            config.get_hostaddrs().iter().map(ToString::to_string).collect()
        } else {
            hosts.collect()
        };
        let ports = config.get_ports();
        f.write_str("postgresql://")?;
        for (index, host) in hosts.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            f.write_str(host)?;
            if let Some(port) = ports.get(index).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_user_password_and_options() {
        for (dsn, shown) in [
            ("postgresql://me:S3CR3T@a:1,b:2/d?application_name=x", "postgresql://a:1,b:2/d"),
            ("host=a port=5433 user=me password='S3C R3T' dbname=d", "postgresql://a:5433/d"),
            ("host=/run/pg dbname=d passfile=x", "postgresql:///run/pg/d"),
            ("host=/run/pg dbname=d passfile=x replication=true", ""),
            ("host=/run/pg dbname=d", "postgresql:///run/pg/d"),
            ("hostaddr=127.0.0.1", "postgresql://127.0.0.1/"),
            ("dbname=d", "postgresql:///var/run/postgresql/d"),
            ("postgresql://me@a/d?sslmode=require&application_name=x", "postgresql://a:5432/d"),
            ("host=a dbname='it\\'s' sslmode=verify-full", "postgresql://a/it's"),
            ("postgresql:///d", "postgresql:///var/run/postgresql/d"),
            ("postgresql://me:S3CR3T@[::1]:1/d", "postgresql://[::1]:1/d"),
        ] {
            let read = Address::parse(dsn, "tests").map(|address| format!("{address}")).unwrap_or_default();
            assert_eq!(read, shown, "{dsn}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused_without_quoting_it() {
        for dsn in [
            "postgresql://me:S3CR3T?x@host/d",
            "postgresql://me:S3CR3T/x@host/d",
            "postgresql://me:S3CR3T",
            "postgresql://me:1234?S3CR3T@host",
            "postgresql://me@h/d?S3CR3T=x",
            "host=a password=my S3CR3T",
            "host=a port=S3CR3T",
            "host=a S3CR3T",
            "password=S3CR3T",
            "host=a connect_timeout=S3CR3T",
            "host=a password='S3CR3T",
            "host=a sslmode=S3CR3T",
            "host=a sslmode=allow password=S3CR3T",
            "host=a sslmode=verify-ca sslrootcert=/nowhere/ca.pem password=S3CR3T",
            "postgresql://me:S3CR3T@host/d?sslcert=me.pem",
            "postgresql://me:S3CR3T@host/d?%73slmode=S3CR3T",
            "postgresql://me:S3CR3T@host/d?sslrootcert=system",
            "host=a,b,c port=1,2 password=S3CR3T",
            "S3CR3T",
            "",
        ] {
            let error = Address::parse(dsn, "tests").expect_err(dsn).to_string();
            assert!(error.starts_with("the address of the database "), "{error}");
            assert!(!error.contains("S3C") && !error.contains("1234"), "{dsn}: {error}");
        }
    }
}
