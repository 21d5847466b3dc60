//! Addresses of brokers, as pika takes them.

use lapin::uri::AMQPUri;

const FORM: &str = "write amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps:// for TLS, for example amqp://guest:guest@localhost:5672/%2f";
/// Options that the client library takes.
const TAKEN: [&str; 5] = ["auth_mechanism", "channel_max", "connection_timeout", "frame_max", "heartbeat"];
/// Options of pika that concern its own client: how it waits and tries again, and its socket.
const WITHOUT_EFFECT: [&str; 7] = [
    "blocked_connection_timeout",
    "connection_attempts",
    "locale",
    "retry_delay",
    "socket_timeout",
    "stack_timeout",
    "tcp_options",
];
/// Options of pika, and of RabbitMQ's own clients, that are refused: TLS is configured by `ca_file`.
const REFUSED: [&str; 9] = [
    "cacertfile",
    "certfile",
    "client_properties",
    "depth",
    "fail_if_no_peer_cert",
    "keyfile",
    "server_name_indication",
    "ssl_options",
    "verify",
];

/// Parses `url`.
///
/// # Errors
/// The address is invalid or has an unknown option. The text repeats only known names, since the address may
/// contain a password.
pub(super) fn parse(url: &str) -> Result<AMQPUri, String> {
    let wrong = |what: &str| format!("the address of the broker {what}: {FORM}");
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, behind) = rest.find(['/', '?', '#']).map_or((rest, ""), |end| rest.split_at(end));
    // With an unescaped / or ? in the password, the parser would take a part of it for the host.
    if behind.contains('@') {
        return Err(wrong("is invalid"));
    }
    let behind = behind.split('#').next().unwrap_or_default();
    let (path, options) = behind.split_once('?').unwrap_or((behind, ""));
    check_options(options).map_err(|what| wrong(&what))?;
    // The parser's own text may contain the password.
    let mut uri: AMQPUri = url.parse().map_err(|_: String| wrong("is invalid"))?;
    // `//` is read as the virtual host `/`, as other clients do.
    if path.len() > 2 && path[1..].contains('/') {
        return Err(wrong("has an unescaped / in its virtual host"));
    }
    if uri.vhost.is_empty() {
        "/".clone_into(&mut uri.vhost);
    }
    // The parser takes an empty user or password for a missing one, and no IPv6 address.
    let (userinfo, server) = authority.rsplit_once('@').unzip();
    let (user, password) = userinfo.map(|it| it.split_once(':').unwrap_or((it, " "))).unzip();
    if user == Some("") {
        uri.authority.userinfo.username.clear();
    }
    if password == Some("") {
        uri.authority.userinfo.password.clear();
    }
    if let Some((host, _)) = server.unwrap_or(authority).strip_prefix('[').and_then(|it| it.split_once(']')) {
        host.clone_into(&mut uri.authority.host);
    }
    Ok(uri)
}

fn check_options(options: &str) -> Result<(), String> {
    let mut seen = Vec::new();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let name = option.split('=').next().unwrap_or_default();
        let among = |names: &[&'static str]| names.iter().copied().find(|known| *known == name);
        if let Some(name) = among(&TAKEN) {
            let alone = format!("amqp://h/?{option}").parse::<AMQPUri>();
            alone.map_err(|_| format!("has an invalid value of {name}"))?;
        } else if among(&WITHOUT_EFFECT).is_none() {
            let name = among(&REFUSED).unwrap_or("an option");
            return Err(format!("has {name}, which is not supported (ca_file configures TLS); leave it out"));
        }
        if seen.contains(&name) {
            return Err(format!("has {name} twice"));
        }
        seen.push(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host, port, virtual host, user, password and heartbeat.
    type Parts = (String, u16, String, String, String, Option<u16>);

    fn parsed(url: &str) -> Result<Parts, String> {
        let AMQPUri { authority, vhost, query, .. } = parse(url)?;
        let user = authority.userinfo;
        Ok((authority.host, authority.port, vhost, user.username, user.password, query.heartbeat))
    }

    #[test]
    fn addresses_are_taken_as_pika_takes_them() {
        for (url, host, port, vhost, user, password, heartbeat) in [
            ("amqp://", "localhost", 5672, "/", "guest", "guest", None),
            ("amqp:///v", "localhost", 5672, "v", "guest", "guest", None),
            ("AMQP://h", "h", 5672, "/", "guest", "guest", None),
            ("amqp://h/", "h", 5672, "/", "guest", "guest", None),
            ("amqp://h/%2f", "h", 5672, "/", "guest", "guest", None),
            ("amqp://h/a%2Fb#f", "h", 5672, "a/b", "guest", "guest", None),
            ("amqps://10.0.0.1/x", "10.0.0.1", 5671, "x", "guest", "guest", None),
            ("amqp://[::1]:5673/v", "::1", 5673, "v", "guest", "guest", None),
            ("amqp://me:p@[fe80::1]", "fe80::1", 5672, "/", "me", "p", None),
            ("amqp://me:p%2F+q@h/", "h", 5672, "/", "me", "p/+q", None),
            ("amqp://:pw@h/", "h", 5672, "/", "", "pw", None),
            ("amqp://me:@h/", "h", 5672, "/", "me", "", None),
            ("amqp://h?heartbeat=30", "h", 5672, "/", "guest", "guest", Some(30)),
            ("amqp://h/v?heartbeat=0&retry_delay=5", "h", 5672, "v", "guest", "guest", Some(0)),
            ("amqp://h/?connection_attempts=3&socket_timeout=9", "h", 5672, "/", "guest", "guest", None),
            ("amqp://h/?blocked_connection_timeout=300&", "h", 5672, "/", "guest", "guest", None),
            // pika knows no such forms.
            ("amqp://h//", "h", 5672, "/", "guest", "guest", None),
            ("amqp://me@h/", "h", 5672, "/", "me", "guest", None),
        ] {
            let expected = (host.into(), port, vhost.into(), user.into(), password.into(), heartbeat);
            assert_eq!(parsed(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn others_are_refused_without_a_part_of_the_address() {
        for (url, said) in [
            ("http://ada:S3CR3T@h/", "is invalid"),
            ("ada:S3CR3T", "is invalid"),
            ("amqp://ada:S3CR3T", "is invalid"),
            ("amqp://ada:S3CR3T?x@h", "is invalid"),
            ("amqp://ada:1?S3CR3T@h", "is invalid"),
            ("amqp://h/S3CR3T/b", "has an unescaped / in its virtual host"),
            ("amqp://h/?heartbeat=S3CR3T", "has an invalid value of heartbeat"),
            ("amqp://h/?heartbeat=70000", "has an invalid value of heartbeat"),
            ("amqp://h/?heartbeat=", "has an invalid value of heartbeat"),
            ("amqp://h/?frame_max=S3CR3T", "has an invalid value of frame_max"),
            ("amqp://h/?heartbeat=1&heartbeat=2", "has heartbeat twice"),
            ("amqps://h/?ssl_options=%7B%7D", "has ssl_options, which is not supported (ca_file configures"),
            ("amqps://h/?verify=verify_none", "has verify, which is not supported"),
            ("amqp://h/?S3CR3T=1", "has an option, which is not supported"),
        ] {
            let text = parsed(url).expect_err(url);
            assert!(text.starts_with(&format!("the address of the broker {said}")), "{url}: {text}");
            assert!(text.contains("amqp://USER") && !text.contains("S3CR3T"), "{url}: {text}");
        }
    }
}
