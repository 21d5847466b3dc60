//! The admin endpoint, on each of its three sockets. The tree is requested on another one.

use std::{io, sync::Arc};

use orchestrator_harness::{TestEnv, raw_tcp, try_http};

use crate::{
    client::Endpoint,
    edge::{Edge, Plan, Side},
    generator::Protocol,
    protocols::HttpClient,
};

struct Admin {
    kind: Kind,
    side: Side,
    answered: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Unix,
    Probe,
}

/// The endpoint's TCP port.
pub(crate) fn tcp(_plan: &Plan) -> Box<dyn Edge> {
    let side = Side::Clients(Box::new(|env| Endpoint::Tcp(env.admin_tcp())));
    Box::new(Admin { kind: Kind::Tcp, side, answered: 0 })
}

/// The endpoint's unix socket.
pub(crate) fn unix(_plan: &Plan) -> Box<dyn Edge> {
    let side = Side::Clients(Box::new(|env| Endpoint::Unix(env.admin_socket())));
    Box::new(Admin { kind: Kind::Unix, side, answered: 0 })
}

/// The TCP port of the probes.
pub(crate) fn probe(_plan: &Plan) -> Box<dyn Edge> {
    let side = Side::Clients(Box::new(|env| Endpoint::Tcp(env.admin_probe())));
    Box::new(Admin { kind: Kind::Probe, side, answered: 0 })
}

impl Edge for Admin {
    fn protocol(&self) -> Arc<dyn Protocol> {
        // A console verb without effect.
        Arc::new(HttpClient {
            small: "GET /livez",
            body: "",
            posts: "/v1/consoles/queue/queue_console/status",
        })
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        String::new()
    }

    fn budget(&self) -> u64 {
        // A body of 64 KiB for each connection.
        64 * (64 << 10)
    }

    fn done(&mut self, env: &TestEnv) -> u64 {
        let get = |address, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            raw_tcp(address, request.as_bytes()).map(|answer| answer.starts_with(b"HTTP/1.1 200"))
        };
        let answered = match self.kind {
            Kind::Tcp => get(env.admin_tcp(), "/v1/tree"),
            Kind::Probe => get(env.admin_probe(), "/metrics"),
            Kind::Unix => {
                let reply = try_http(&env.admin_socket(), "GET", "/v1/tree", &[], "");
                io::Result::Ok(reply.is_ok_and(|reply| reply.status == 200))
            }
        };
        self.answered += u64::from(answered.unwrap_or(false));
        self.answered
    }
}
