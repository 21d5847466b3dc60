//! Validation of MongoDB addresses. Its error texts never contain the address, which may have a password;
//! those of the driver do.

use mongodb::options::ConnectionString;

use crate::{HostPort, read_regular};

/// Advice for invalid addresses.
const FORM: &str = "write mongodb://USER:PASSWORD@HOST:PORT/?OPTIONS, special characters of the user and the password as %XX";
/// Options whose names may appear in error texts. Other text may be part of a password.
const OPTIONS: &[&str] = &[
    "appName",
    "authMechanism",
    "authMechanismProperties",
    "authSource",
    "connectTimeoutMS",
    "directConnection",
    "heartbeatFrequencyMS",
    "journal",
    "loadBalanced",
    "localThresholdMS",
    "maxConnecting",
    "maxIdleTimeMS",
    "maxPoolSize",
    "maxStalenessSeconds",
    "minPoolSize",
    "readConcernLevel",
    "readPreference",
    "readPreferenceTags",
    "replicaSet",
    "retryReads",
    "retryWrites",
    "serverMonitoringMode",
    "serverSelectionTimeoutMS",
    "socketTimeoutMS",
    "srvMaxHosts",
    "srvServiceName",
    "ssl",
    "tls",
    "tlsAllowInvalidCertificates",
    "tlsCAFile",
    "tlsCertificateKeyFile",
    "tlsInsecure",
    "w",
    "waitQueueTimeoutMS",
    "wTimeoutMS",
];
/// Options of pymongo that concern its own client: compression, and types of Python.
const WITHOUT_EFFECT: [&str; 8] = [
    "compressors",
    "connect",
    "tlsDisableOCSPEndpointCheck",
    "tz_aware",
    "unicode_decode_error_handler",
    "uuidRepresentation",
    "waitQueueMultiple",
    "zlibCompressionLevel",
];
/// Options of pymongo that the driver lacks.
const UNSUPPORTED: [&str; 6] = [
    "fsync",
    "proxyHost",
    "timeoutMS",
    "tlsAllowInvalidHostnames",
    "tlsCRLFile",
    "tlsCertificateKeyFilePassword",
];
/// Options that name a file, which the client reads.
const FILES: [&str; 2] = ["tlsCAFile", "tlsCertificateKeyFile"];

/// Parses `uri`.
///
/// # Errors
/// The address is invalid. The text says why, without parts of the address.
pub(super) fn parse(uri: &str) -> Result<ConnectionString, String> {
    let wrong = |what: &str| format!("the address of the database {what}: {FORM}");
    let Some(rest) = uri.strip_prefix("mongodb://") else {
        return Err(if uri.starts_with("mongodb+srv://") {
            wrong("has the scheme mongodb+srv, which is not supported: name the servers")
        } else {
            wrong("does not begin with mongodb://")
        });
    };
    let (authority, behind) = rest.find(['/', '?']).map_or((rest, ""), |end| rest.split_at(end));
    if behind.contains('@') {
        return Err(wrong("has an unescaped @ after its hosts"));
    }
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let is_host = |host: &str| host.ends_with(".sock") || HostPort::parse(host, Some(27_017)).is_some();
    if !hosts.split(',').all(is_host) {
        return Err(wrong("has an invalid host or port"));
    }
    let (path, options) = behind.split_once('?').unwrap_or((behind, ""));
    let kept = options.split('&').filter(|pair| known(&WITHOUT_EFFECT, pair).is_none());
    let uri = format!("mongodb://{authority}{path}?{}", kept.collect::<Vec<_>>().join("&"));
    // The driver's text may contain any part of the address.
    ConnectionString::parse(uri.trim_end_matches('?')).map_err(|_| match wrong_option(options) {
        Some(pair) => match known(&UNSUPPORTED, pair) {
            Some(option) => wrong(&format!("has {option}, which is not supported (leave it out)")),
            None => {
                let option = known(OPTIONS, pair).unwrap_or("an option");
                wrong(&format!("has an invalid value of {option}"))
            }
        },
        None => wrong("is invalid"),
    })
}

/// The one of `names` that is the name in `pair`, `name=value`.
fn known(names: &[&'static str], pair: &str) -> Option<&'static str> {
    let name = pair.split('=').next().unwrap_or_default();
    names.iter().copied().find(|known| known.eq_ignore_ascii_case(name))
}

/// Pair in `options` that the driver refuses.
fn wrong_option(options: &str) -> Option<&str> {
    let pairs = options.split('&').filter(|pair| !pair.is_empty() && known(&WITHOUT_EFFECT, pair).is_none());
    let refused = |pair: &&str| ConnectionString::parse(format!("mongodb://h/?tls=true&{pair}")).is_err();
    // Some options are refused only together with `tls=true`.
    let alone = |pair: &&str| ConnectionString::parse(format!("mongodb://h/?{pair}")).is_err();
    pairs.filter(refused).find(alone)
}

/// Reason why the driver cannot use the options of a valid address.
pub(super) fn unusable(uri: &str) -> String {
    let pairs = uri.split_once('?').map_or("", |(_, options)| options).split('&');
    let files = pairs.filter_map(|pair| pair.split_once('='));
    for (key, path) in files {
        if let Some(name) = FILES.iter().find(|file| file.eq_ignore_ascii_case(key))
            && let Err(error) = read_regular(path.as_ref())
        {
            return format!(
                "the address of the database names a file in {name} that cannot be read: {error}"
            );
        }
    }
    "the address of the database has options that cannot be used together, or files with no certificates or keys in PEM: see its options about tls and auth".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_servers_is_parsed() {
        for uri in [
            "mongodb://127.0.0.1:27017",
            "mongodb://me:p%2F@a:1,b/admin?replicaSet=rs0&w=majority",
            "mongodb://me@[::1]:1/?authMechanism=MONGODB-X509&tls=true",
            "mongodb://%2Frun%2Fmongodb.sock/d",
            "mongodb://a/?readPreference=nearest&readPreferenceTags=dc:ny",
            "mongodb://a?tls=true&tlsCAFile=/x&tlsCertificateKeyFile=/y",
            "mongodb://a/?compressors=zlib&zlibCompressionLevel=3",
            "mongodb://a?uuidRepresentation=standard&w=1&tz_aware=true&Connect=false",
            "mongodb://a/d?unicode_decode_error_handler=ignore&waitQueueMultiple=5",
            "mongodb://a/?tls=true&tlsDisableOCSPEndpointCheck=true",
            "mongodb://a/?ssl=true&tlsInsecure=true",
            "mongodb://a/?replicaset=rs&appname=x&retryWrites=false&wtimeoutMS=100",
            "mongodb://a/?connectTimeoutMS=1000&socketTimeoutMS=1000&maxPoolSize=5&minPoolSize=1",
            "mongodb://a/?directConnection=true&serverMonitoringMode=poll&heartbeatFrequencyMS=1000",
            "mongodb://a/d.c?authSource=admin&readConcernLevel=local&retryReads=false&maxConnecting=2",
        ] {
            assert_eq!(parse(uri).err(), None, "{uri}");
        }
    }

    #[test]
    fn the_error_of_an_invalid_address_does_not_contain_it() {
        for (uri, said) in [
            ("mongodb://user:S3CR3T?x@host", "an unescaped @ after its hosts"),
            ("mongodb://user:S3CR3T/x@host", "an unescaped @ after its hosts"),
            ("mongodb://user:1234?S3CR3T@host", "an unescaped @"),
            ("mongodb://user:S3CR3T", "an invalid host or port"),
            ("mongodb://user:S3@CR3T@host:1", "is invalid"),
            ("mongodb://user:S3CR3T#x@host", "is invalid"),
            ("mongodb://user:S3CR3T%zz@host", "is invalid"),
            ("mongodb://user:S3CR3T@host/S3CR3T$x", "is invalid"),
            ("mongodb://user:S3CR3T@host/?S3CR3T=x", "an invalid value of an option"),
            ("mongodb://user:S3CR3T@host/?S3CR3T", "an invalid value of an option"),
            ("mongodb://user:S3CR3T@host/?journal=S3CR3T", "an invalid value of journal"),
            ("mongodb://host/?AUTHMECHANISM=S3CR3T", "an invalid value of authMechanism"),
            ("mongodb://u:S3CR3T@host/?timeoutms=5", "has timeoutMS, which is not supported"),
            ("mongodb://host/?w=1&fsync=false&S3CR3T=1", "has fsync, which is not supported"),
            (
                "mongodb://host/?tls=true&tlsAllowInvalidHostnames=S3CR3T",
                "has tlsAllowInvalidHostnames, which",
            ),
            (
                "mongodb://host/?tls=true&tlsCertificateKeyFilePassword=S3CR3T",
                "tlsCertificateKeyFilePassword, which",
            ),
            ("mongodb://host/?tlsCRLFile=S3CR3T", "has tlsCRLFile, which"),
            ("mongodb+srv://user:S3CR3T@host", "mongodb+srv"),
            ("S3CR3T://host", "does not begin with mongodb://"),
            ("user:S3CR3T@host", "does not begin with mongodb://"),
            ("", "does not begin with mongodb://"),
        ] {
            let error = parse(uri).map(drop).expect_err(uri);
            assert!(error.contains(said) && error.contains("write mongodb://USER"), "{uri}: {error}");
            assert!(!error.contains("S3") && !error.contains("1234"), "{uri}: {error}");
        }
    }
}
