//! Names of peers in causes, and the commands that examine a peer that is down or does not answer. No I/O.

use orchestrator_edge::shell_word;

/// Name of a kind of peer in a sentence.
pub(crate) fn name_of(kind: &str) -> &str {
    match kind {
        "amqp" | "rabbitmq" => "RabbitMQ",
        "ermrest" => "ERMrest",
        "faktory" => "Faktory",
        "mongodb" => "MongoDB",
        "postgres" => "PostgreSQL",
        "redis" => "Redis",
        "sqlite" => "SQLite",
        other => other,
    }
}

/// Server of an endpoint.
#[derive(Debug, PartialEq, Eq)]
struct Server<'a> {
    /// Name or address without brackets, or the directory of a unix socket.
    host: &'a str,
    port: Option<&'a str>,
}

impl<'a> Server<'a> {
    fn parse(text: &'a str) -> Self {
        let is_port = |port: &&str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        if let Some((host, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
            return Self { host, port: rest.strip_prefix(':').filter(is_port) };
        }
        match text.rsplit_once(':').filter(|(_, port)| is_port(port)) {
            // An address of version 6 without brackets has no port.
            Some((host, _)) if host.contains(':') => Self { host: text, port: None },
            Some((host, port)) => Self { host, port: Some(port) },
            None => Self { host: text, port: None },
        }
    }

    /// Options of a command that has `-h HOST` and `-p PORT`.
    fn options(&self) -> String {
        let port = self.port.map_or_else(String::new, |port| format!(" -p {port}"));
        format!("-h {}{port}", shell_word(self.host))
    }
}

/// Part of an endpoint that names servers: `HOST:PORT` of each. The whole endpoint if it is a file.
fn authority(endpoint: &str) -> &str {
    let Some((_, rest)) = endpoint.split_once("://") else {
        return if endpoint.starts_with(['/', '.']) {
            endpoint
        } else {
            endpoint.split('/').next().unwrap_or(endpoint)
        };
    };
    // The directory of a unix socket comes before the last slash.
    let end = if rest.starts_with('/') { rest.rfind('/') } else { rest.find('/') };
    end.filter(|end| *end > 0).map_or(rest, |end| &rest[..end])
}

/// Place of a peer in a sentence: its servers, or the whole endpoint of a file or an unknown kind.
pub(crate) fn place_of<'a>(kind: &str, endpoint: &'a str) -> &'a str {
    if name_of(kind) == kind || kind == "sqlite" { endpoint } else { authority(endpoint) }
}

/// Command that examines a peer that is down or does not answer, and what to check.
pub(crate) fn examine(kind: &str, endpoint: &str) -> String {
    let file = shell_word(endpoint);
    let is_file = endpoint.starts_with(['/', '.']);
    let servers = authority(endpoint).split(',').map(Server::parse);
    let each = |command: &dyn Fn(Server<'_>) -> String| servers.map(command).collect::<Vec<_>>().join("; ");
    let command = match kind {
        "sqlite" => return format!("fuser -v {file}; ls -l {file}"),
        "inotify" | "unix socket" => return format!("ls -ld {file}"),
        "python" => return "journalctl -u orchestrator for the traceback; correct the class".to_owned(),
        "amqp" | "rabbitmq" => "rabbitmqctl status".to_owned(),
        "ermrest" | "webhook" => format!("curl -sS {file}"),
        "faktory" => each(&|server| format!("nc -vz {} {}", server.host, server.port.unwrap_or("7419"))),
        // The endpoint is the file with the address.
        "mongodb" if is_file => format!("mongosh \"$(cat {file})\" --eval 'db.hello()'"),
        "mongodb" => format!("mongosh mongodb://{} --eval 'db.hello()'", authority(endpoint)),
        "postgres" if is_file => format!("pg_isready -d \"$(cat {file})\""),
        "postgres" => each(&|server| format!("pg_isready {}", server.options())),
        "redis" if is_file => format!("redis-cli -s {file} PING"),
        "redis" => each(&|server| format!("redis-cli {} PING", server.options())),
        _ => return format!("check that {endpoint} runs and is reachable"),
    };
    format!("{command}; check that {endpoint} runs and is reachable")
}

/// The same for a peer that has the request and does not answer.
pub(crate) fn examine_silent(kind: &str, endpoint: &str) -> String {
    let command = examine(kind, endpoint);
    match kind {
        "postgres" => format!(
            "{command}; if it accepts connections: SELECT pid, state, wait_event_type, query FROM pg_stat_activity"
        ),
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_valid_for_each_form_of_an_address() {
        for (kind, endpoint, command) in [
            ("postgres", "postgresql://db1/queue", "pg_isready -h db1"),
            ("postgres", "postgresql://db1:5433/queue", "pg_isready -h db1 -p 5433"),
            ("postgres", "postgresql://[::1]:5433/queue", "pg_isready -h ::1 -p 5433"),
            ("postgres", "postgresql://[::1]/queue", "pg_isready -h ::1"),
            ("postgres", "postgresql://::1/queue", "pg_isready -h ::1"),
            ("postgres", "postgresql:///run/pg/queue", "pg_isready -h /run/pg"),
            ("postgres", "postgresql:///run/pg:5433/queue", "pg_isready -h /run/pg -p 5433"),
            ("postgres", "postgresql://a:1,b/queue", "pg_isready -h a -p 1; pg_isready -h b"),
            ("postgres", "/etc/orchestrator/dsn", "pg_isready -d \"$(cat /etc/orchestrator/dsn)\""),
            ("redis", "r:6379", "redis-cli -h r -p 6379 PING"),
            ("redis", "[::1]:6379", "redis-cli -h ::1 -p 6379 PING"),
            ("redis", "/run/redis.sock", "redis-cli -s /run/redis.sock PING"),
            ("faktory", "127.0.0.1:7419", "nc -vz 127.0.0.1 7419"),
            ("faktory", "[::1]:7419", "nc -vz ::1 7419"),
            ("mongodb", "mongodb://a:1,b/d", "mongosh mongodb://a:1,b --eval 'db.hello()'"),
            ("mongodb", "/etc/uri", "mongosh \"$(cat /etc/uri)\" --eval 'db.hello()'"),
            ("amqp", "h:5672//", "rabbitmqctl status"),
            ("ermrest", "https://h/ermrest/catalog/1", "curl -sS https://h/ermrest/catalog/1"),
        ] {
            let expected = format!("{command}; check that {endpoint} runs and is reachable");
            assert_eq!(examine(kind, endpoint), expected);
        }
        assert_eq!(examine("fake", "fake:1"), "check that fake:1 runs and is reachable");
        assert_eq!(examine("inotify", "a b"), "ls -ld 'a b'");
        for (kind, endpoint, place) in [
            ("postgres", "postgresql://a:1,b/queue", "a:1,b"),
            ("postgres", "postgresql:///run/pg/queue", "/run/pg"),
            ("amqp", "h:5672/prod", "h:5672"),
            ("sqlite", "var/queue.db", "var/queue.db"),
            ("webhook", "http://h/tcn", "http://h/tcn"),
            ("ermrest", "https://h/ermrest/catalog/1", "h"),
        ] {
            assert_eq!(place_of(kind, endpoint), place);
        }
    }
}
