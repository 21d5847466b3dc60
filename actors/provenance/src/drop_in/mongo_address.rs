//! Translation of the original's MongoDB arguments, those of Python's `MongoClient`, to an address.
//! Pure.

use std::collections::BTreeMap;

use orchestrator_subsystem::percent::encode;

use super::part::{Part, Result, refused};

/// Returns the address and the name of the database.
pub(super) fn of(mut parts: BTreeMap<String, Part>) -> Result<(String, String)> {
    let Some(Part::Text(database)) = parts.remove("dbname") else {
        return Err(refused("storage_config.db has no dbname: name the database"));
    };
    let mut plain = |name: &str| parts.remove(name).map(|part| part.to_string());
    let (user, password, port) = (plain("username"), plain("password"), plain("port"));
    let hosts = match parts.remove("host") {
        None => vec!["localhost".to_owned()],
        Some(Part::Texts(hosts)) => hosts,
        Some(host) => vec![host.to_string()],
    };
    let mut address = match hosts.as_slice() {
        [uri] if uri.contains("://") => uri.clone(),
        hosts => {
            let port = port.as_deref().unwrap_or("27017");
            let hosts: Vec<String> = hosts.iter().map(|host| with_port(host, port)).collect();
            format!("mongodb://{}", hosts.join(","))
        }
    };
    let (scheme, rest) =
        address.split_once("://").ok_or_else(|| refused("storage_config.db.host is not an address"))?;
    if let Some(user) = user
        && !rest.contains('@')
    {
        let password = password.map(|password| format!(":{}", encode(&password))).unwrap_or_default();
        address = format!("{scheme}://{}{password}@{rest}", encode(&user));
    }
    for (name, part) in parts {
        let value = encode(&part.to_string());
        let before = match address.split_once("://") {
            Some((_, rest)) if rest.contains('?') => "&",
            Some((_, rest)) if rest.contains('/') => "?",
            _ => "/?",
        };
        address.push_str(&format!("{before}{name}={value}"));
    }
    Ok((address, database))
}

/// Adds the port to a host that has none.
fn with_port(host: &str, port: &str) -> String {
    match host.matches(':').count() {
        0 => format!("{host}:{port}"),
        1 => host.to_owned(),
        _ if host.starts_with('[') => {
            if host.ends_with(']') {
                format!("{host}:{port}")
            } else {
                host.to_owned()
            }
        }
        _ => format!("[{host}]:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_an_address() {
        for (yaml, uri) in [
            ("{dbname: p}", "mongodb://localhost:27017"),
            ("{dbname: p, host: db, port: 27018}", "mongodb://db:27018"),
            ("{dbname: p, host: 'db:1'}", "mongodb://db:1"),
            ("{dbname: p, host: '::1'}", "mongodb://[::1]:27017"),
            ("{dbname: p, host: [a, 'b:2'], replicaSet: rs0}", "mongodb://a:27017,b:2/?replicaSet=rs0"),
            (
                "{dbname: p, host: db, username: me, password: 'p@ss/:1', authSource: admin, tls: true}",
                "mongodb://me:p%40ss%2F%3A1@db:27017/?authSource=admin&tls=true",
            ),
            ("{dbname: p, host: 'mongodb://u:p@a,b/x?w=1', port: 9}", "mongodb://u:p@a,b/x?w=1"),
            ("{dbname: p, host: 'mongodb://a', username: me}", "mongodb://me@a"),
            ("{dbname: p, host: 'mongodb://a/', tls: false}", "mongodb://a/?tls=false"),
        ] {
            let parts = orchestrator_subsystem::yaml::read(yaml).unwrap();
            assert_eq!(of(parts).unwrap(), (uri.to_owned(), "p".to_owned()), "{yaml}");
        }
        let error = of(orchestrator_subsystem::yaml::read("{host: db}").unwrap()).unwrap_err().to_string();
        assert!(error.contains("dbname"), "{error}");
    }
}
