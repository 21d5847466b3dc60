//! The program that listens on a TCP address, from `/proc`.

use std::{
    fs,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::Path,
};

use orchestrator_text::sanitize;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// A listening socket.
#[derive(Debug, PartialEq, Eq)]
struct Listener<'a> {
    user: &'a str,
    inode: &'a str,
}

/// Process that listens on `address`, such as `process 4711 (nginx)`. The files of other users' processes
/// cannot be read; for these the result names the user only.
pub(crate) fn port_owner(address: SocketAddr) -> String {
    let tables = tables();
    let Some(listener) = tables.iter().find_map(|table| listeners(table, address).next()) else {
        return "another program".to_owned();
    };
    let socket = format!("socket:[{}]", listener.inode);
    match process_with(Path::new(&socket)) {
        Some(pid) => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("process {pid} ({})", sanitize(name.trim_end()))
        }
        None => format!("another program of user {}", listener.user),
    }
}

/// Users who listen on `address` of this host. Several can, on different addresses of an unspecified one.
pub fn listening_users(address: SocketAddr) -> Vec<u32> {
    let tables = tables();
    let users = tables.iter().flat_map(|table| listeners(table, address));
    users.filter_map(|listener| listener.user.parse().ok()).collect()
}

fn tables() -> [String; 2] {
    ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default())
}

/// Finds the listening sockets in a table of `/proc/net` that occupy `address`.
fn listeners(table: &str, address: SocketAddr) -> impl Iterator<Item = Listener<'_>> {
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, user, inode) = (fields.get(1)?, fields.get(3)?, fields.get(7)?, fields.get(9)?);
        let (ip, port) = local.split_once(':')?;
        let ip = parse_ip(ip)?;
        let wanted = address.ip().to_canonical();
        let overlaps = ip == wanted || ip.is_unspecified() || wanted.is_unspecified();
        let is_same = overlaps && u16::from_str_radix(port, 16) == Ok(address.port());
        (*state == LISTEN && is_same).then_some(Listener { user, inode })
    })
}

/// Parses an address of one or four words, each in the byte order of the machine.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => word(0).map(IpAddr::from),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// Id of a process that has the file open.
fn process_with(file: &Path) -> Option<String> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid = process.file_name().into_string().ok()?;
        if !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut open = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        open.any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_of_this_process_is_found() {
        let name = fs::read_to_string("/proc/self/comm").unwrap();
        let expected = format!("process {} ({})", std::process::id(), name.trim_end());
        for listen in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(socket) = TcpListener::bind(listen) else { continue };
            let address = socket.local_addr().unwrap();
            assert_eq!(port_owner(address), expected, "{listen}");
            assert_eq!(listening_users(address), [rustix::process::geteuid().as_raw()], "{listen}");
        }
        assert_eq!(port_owner("127.0.0.1:1".parse().unwrap()), "another program", "nobody listens");
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_table_is_searched_by_address_port_and_state() {
        let line = |local: &str, state: &str| {
            let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
            format!(
                "{head}\n   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 77 1"
            )
        };
        let address = "127.0.0.1:7117".parse().unwrap();
        let zeros = "00000000000000000000000000000000";
        let mapped = "0000000000000000FFFF00000100007F";
        for (local, state, found) in [
            ("0100007F:1BCD".to_owned(), "0A", true),
            ("00000000:1BCD".to_owned(), "0A", true),
            (format!("{zeros}:1BCD"), "0A", true),
            (format!("{mapped}:1BCD"), "0A", true),
            ("0200007F:1BCD".to_owned(), "0A", false),
            ("0100007F:1BCE".to_owned(), "0A", false),
            ("0100007F:1BCD".to_owned(), "01", false),
            ("?".to_owned(), "0A", false),
        ] {
            let expected = found.then_some(Listener { user: "1000", inode: "77" });
            assert_eq!(listeners(&line(&local, state), address).next(), expected, "{local} {state}");
        }
    }
}
