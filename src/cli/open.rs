//! `orchestrator open`: the address of the web console.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use orchestrator_subsystem::{CommandError, OutputFormat, wire::ErrorKind};
use serde_json::{Value, json};

use crate::cli::{address::Address, client::Client};

/// Address of the console of the running instance. Behind a unix socket, the instance is asked for its TCP
/// address.
pub(super) async fn run(format: OutputFormat, client: &Client) -> Result<String, CommandError> {
    let info = match client.get("/v1/info").await {
        Ok(info) => info,
        // The console asks for a token itself.
        Err(CommandError::ErrorResponse(body))
            if matches!(body.error, ErrorKind::Unauthorized | ErrorKind::Forbidden) =>
        {
            Value::Null
        }
        Err(error) => return Err(error),
    };
    let url = match client.address() {
        address @ (Address::Tcp { .. } | Address::Default(_)) => format!("{address}/"),
        Address::Unix(path) => {
            let listens_on = info["admin"]["listens_on"].as_str().unwrap_or_default();
            tcp_address(listens_on).ok_or_else(|| {
                let path = path.display();
                CommandError::Local(format!(
                    "the instance has no TCP address for a browser: set admin.listen = \"127.0.0.1:7117\", or forward a port to \
                     its socket, for example by `ssh -L 7117:{path} HOST`, and open http://127.0.0.1:7117/"
                ))
            })?
        }
    };
    Ok(if format.json { format.print(&json!({ "url": url })) } else { format!("{url}\n") })
}

/// URL among the addresses of an instance, `http://IP:PORT and PATH`.
fn tcp_address(listens_on: &str) -> Option<String> {
    let address = listens_on.strip_prefix("http://")?.split(' ').next()?;
    let mut address: SocketAddr = address.parse().ok()?;
    // An instance that listens on all interfaces is reached through the loopback one.
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Some(format!("http://{address}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tcp_address_is_found_among_the_addresses() {
        for (listens_on, url) in [
            ("http://127.0.0.1:7117 and /run/admin.sock", Some("http://127.0.0.1:7117/")),
            ("http://0.0.0.0:80", Some("http://127.0.0.1:80/")),
            ("http://[::]:7117", Some("http://[::1]:7117/")),
            ("/run/admin.sock", None),
            ("http://elsewhere.example:1", None),
            ("", None),
        ] {
            assert_eq!(tcp_address(listens_on).as_deref(), url, "{listens_on}");
        }
    }
}
