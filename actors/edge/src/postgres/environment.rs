//! Parameters that libpq adds to a connection string: from the service file and the environment.

use super::{option_error::OptionError, parameters::Parameters};
use crate::{open_secret_file, read_at_most};

/// Looks up an environment variable.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Variables and their parameters.
const VARIABLES: [(&str, &str); 31] = [
    ("PGAPPNAME", "application_name"),
    ("PGCHANNELBINDING", "channel_binding"),
    ("PGCONNECT_TIMEOUT", "connect_timeout"),
    ("PGDATABASE", "dbname"),
    ("PGGSSDELEGATION", "gssdelegation"),
    ("PGGSSENCMODE", "gssencmode"),
    ("PGGSSLIB", "gsslib"),
    ("PGHOST", "host"),
    ("PGHOSTADDR", "hostaddr"),
    ("PGKRBSRVNAME", "krbsrvname"),
    ("PGLOADBALANCEHOSTS", "load_balance_hosts"),
    ("PGMAXPROTOCOLVERSION", "max_protocol_version"),
    ("PGMINPROTOCOLVERSION", "min_protocol_version"),
    ("PGOPTIONS", "options"),
    ("PGPASSFILE", "passfile"),
    ("PGPASSWORD", "password"),
    ("PGPORT", "port"),
    ("PGREQUIREAUTH", "require_auth"),
    ("PGREQUIREPEER", "requirepeer"),
    ("PGSSLCERT", "sslcert"),
    ("PGSSLCERTMODE", "sslcertmode"),
    ("PGSSLCRL", "sslcrl"),
    ("PGSSLCRLDIR", "sslcrldir"),
    ("PGSSLKEY", "sslkey"),
    ("PGSSLMAXPROTOCOLVERSION", "ssl_max_protocol_version"),
    ("PGSSLMINPROTOCOLVERSION", "ssl_min_protocol_version"),
    ("PGSSLMODE", "sslmode"),
    ("PGSSLNEGOTIATION", "sslnegotiation"),
    ("PGSSLROOTCERT", "sslrootcert"),
    ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ("PGUSER", "user"),
];
/// Directory of the service file of the machine: libpq's default in Debian.
const SYSTEM_DIRECTORY: &str = "/etc/postgresql-common";
/// Largest service file, in bytes.
const SERVICE_FILE_MAX: u64 = 1 << 20;

/// Adds the parameters of the service, then those of the environment. Those that are there stay.
pub(super) fn fill(parameters: &mut Parameters, variable: Variable<'_>) -> Result<(), OptionError> {
    let is_set = |value: &String| !value.is_empty();
    let service = parameters.take("service").or_else(|| variable("PGSERVICE")).filter(is_set);
    if let Some(service) = service {
        for (name, value) in of_service(&service, variable).map_err(OptionError::Invalid)? {
            parameters.fill(&name, &value, None);
        }
    }
    for (name, parameter) in VARIABLES {
        if let Some(value) = variable(name).filter(is_set) {
            parameters.fill(parameter, &value, Some(name));
        }
    }
    Ok(())
}

/// Parameters of a service: from the file in `PGSERVICEFILE` or else the home directory, then from that of
/// the machine.
fn of_service(service: &str, variable: Variable<'_>) -> Result<Vec<(String, String)>, String> {
    let own = variable("PGSERVICEFILE");
    let must_exist = own.is_some();
    let own = own.or_else(|| Some(format!("{}/.pg_service.conf", variable("HOME")?)));
    let directory = variable("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM_DIRECTORY.to_owned());
    let of_machine = Some((format!("{directory}/pg_service.conf"), false));
    for (file, must_exist) in own.map(|file| (file, must_exist)).into_iter().chain(of_machine) {
        let text = match open_secret_file(file.as_ref())
            .and_then(|(file, _)| read_at_most(&file, SERVICE_FILE_MAX))
        {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => continue,
            Err(error) => return Err(format!("has a service, but {file} cannot be read: {error}")),
        };
        if let Some(parameters) = section(&String::from_utf8_lossy(&text), service)
            .map_err(|line| format!("has a service, but line {line} of {file} is no name=value"))?
        {
            return Ok(parameters);
        }
    }
    Err("has a service that no service file defines: add it to ~/.pg_service.conf".to_owned())
}

/// The first value of a name counts. The error is a line number.
fn section(text: &str, service: &str) -> Result<Option<Vec<(String, String)>>, usize> {
    let mut found: Option<Vec<(String, String)>> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            if found.is_some() {
                break;
            }
            if line
                .strip_prefix('[')
                .and_then(|rest| rest.split_once(']'))
                .is_some_and(|(name, _)| name == service)
            {
                found = Some(Vec::new());
            }
        } else if let Some(parameters) = &mut found {
            // A service in a service, and LDAP, are refused.
            let (name, value) =
                line.split_once('=').filter(|(name, _)| *name != "service").ok_or(number + 1)?;
            if !parameters.iter().any(|(known, _)| known == name) {
                parameters.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    Ok(found)
}
