//! Unsent bytes in the kernel's socket buffers.
//!
//! No safe wrapper exists for `SIOCOUTQ`, so the kernel's table of TCP sockets is read instead,
//! once for all connections and only at a change of mappings.

use std::{collections::HashSet, fmt::Write, fs, net::SocketAddr};

use tokio::net::TcpStream;

/// Connections with bytes that their peers have not acknowledged.
#[derive(Debug, Default)]
pub(super) struct UnsentSockets {
    /// Local and remote address of each connection, as written in the table; None if the table
    /// cannot be read.
    table: Option<Option<HashSet<(String, String)>>>,
}

impl UnsentSockets {
    /// Returns true if `stream` may have unsent bytes, also if that is unknown.
    pub(super) fn contains(&mut self, stream: &TcpStream) -> bool {
        let table = self.table.get_or_insert_with(read);
        let (Some(table), Ok(local), Ok(remote)) = (table, stream.local_addr(), stream.peer_addr()) else {
            return true;
        };
        table.contains(&(table_form(local), table_form(remote)))
    }
}

fn read() -> Option<HashSet<(String, String)>> {
    let mut found = HashSet::new();
    parse(&fs::read_to_string("/proc/thread-self/net/tcp").ok()?, &mut found);
    // Missing in kernels without IPv6.
    if let Ok(text) = fs::read_to_string("/proc/thread-self/net/tcp6") {
        parse(&text, &mut found);
    }
    Some(found)
}

/// Columns: number, local, remote, state, `tx_queue:rx_queue`, ..
fn parse(text: &str, found: &mut HashSet<(String, String)>) {
    for line in text.lines().skip(1) {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let (Some(local), Some(remote), Some(queues)) = (columns.next(), columns.next(), columns.nth(1))
        else {
            continue;
        };
        if queues.split(':').next().is_some_and(|unsent| unsent.bytes().any(|digit| digit != b'0')) {
            found.insert((local.to_owned(), remote.to_owned()));
        }
    }
}

/// Address as in the table: 32-bit words in native byte order and the port, all in hexadecimal.
fn table_form(address: SocketAddr) -> String {
    let octets = match address {
        SocketAddr::V4(address) => address.ip().octets().to_vec(),
        SocketAddr::V6(address) => address.ip().octets().to_vec(),
    };
    let mut text = String::new();
    for word in octets.as_chunks::<4>().0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:08X}", u32::from_ne_bytes(*word));
    }
    let _ = write!(text, ":{:04X}", address.port());
    text
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn unsent_bytes_are_detected() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host).await else {
                assert!(host.starts_with('['), "there is IPv4 everywhere");
                continue;
            };
            let address = listener.local_addr().expect("an address");
            let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
            let (ours, mut theirs) = (ours.expect("connected"), theirs.expect("connected").0);
            assert!(!UnsentSockets::default().contains(&ours));
            let mut written = 0;
            // Fills the buffers of both sides.
            while let Ok(Ok(count)) = tokio::time::timeout(std::time::Duration::from_millis(200), async {
                ours.writable().await?;
                ours.try_write(&[0; 1 << 16]).or_else(|error| {
                    if error.kind() == std::io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
                })
            })
            .await
            {
                written += count;
            }
            assert!(UnsentSockets::default().contains(&ours));
            assert!(!UnsentSockets::default().contains(&theirs));
            let mut taken = vec![0; written];
            theirs.read_exact(&mut taken).await.expect("all of it");
            orchestrator_supervise::testing::eventually("all is confirmed", || {
                !UnsentSockets::default().contains(&ours)
            })
            .await;
        }
    }
}
