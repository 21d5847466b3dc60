//! The lines about the endpoint for the terminal of an interactive start.

use orchestrator_observe::Link;
use orchestrator_supervise::Tree;

use crate::AdminConfig;

/// Lines about the endpoint at the path `own`: its addresses and a command to try, or the reason why it has
/// none. None while the endpoint opens its sockets.
pub fn greeting(config: &AdminConfig, tree: &Tree, own: &str) -> Option<String> {
    let text = if config.listen.is_empty() && config.unix_socket.is_none() {
        "off, and with it the console and all commands: set admin.listen or admin.unix_socket".to_owned()
    } else {
        match tree.vitals(own)?.link_state()? {
            (_, endpoint, Link::Up { .. }) => addresses(&endpoint),
            (_, endpoint, Link::Down { failure, .. }) => {
                let reason = failure.reason;
                // The other socket may be open.
                let mut others = endpoint.split(" and ").skip(1).filter(|path| !path.starts_with("http://"));
                let unix = others.next().filter(|path| !reason.contains(path));
                let unix = unix.map(|path| format!("\n              {}", addresses(path)));
                format!("{reason}{}", unix.unwrap_or_default())
            }
            _ => return None,
        }
    };
    Some(format!("  admin       {text}\n"))
}

/// Formats the addresses with the command that reaches them.
fn addresses(endpoint: &str) -> String {
    let first = endpoint.split(" and ").next().unwrap_or(endpoint);
    match first.strip_prefix("http://") {
        Some(AdminConfig::DEFAULT_LISTEN) => {
            format!("{endpoint}  (open it in a browser, or run `orchestrator tree`)")
        }
        Some(_) => format!("{endpoint}  (open it in a browser, or run `orchestrator tree --url {first}`)"),
        None => format!("{endpoint}  (run `orchestrator tree --socket {first}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_reaches_the_address() {
        for (endpoint, command) in [
            ("http://127.0.0.1:7117", "`orchestrator tree`"),
            ("http://127.0.0.1:7117 and /run/a.sock", "`orchestrator tree`"),
            ("http://127.0.0.1:9000 and /run/a.sock", "`orchestrator tree --url http://127.0.0.1:9000`"),
            ("/run/a.sock", "`orchestrator tree --socket /run/a.sock`"),
            ("/run/a.sock and http://0.0.0.0:9100 (probes)", "`orchestrator tree --socket /run/a.sock`"),
        ] {
            let text = addresses(endpoint);
            assert!(text.starts_with(endpoint) && text.contains(command), "{text}");
        }
    }
}
