//! Supervision tree of an instance over its admin socket, and injected panics.

use std::fmt;

use serde_json::Value;

use crate::{HttpReply, TestEnv, http, try_http, wait_for};

/// Snapshot of the supervision tree.
#[derive(Debug, Clone)]
pub struct Snapshot(Value);

impl Snapshot {
    /// Node of the child at `path`, such as `queue/queue_store`.
    ///
    /// # Panics
    /// If there is no such child.
    pub fn node(&self, path: &str) -> &Value {
        let path = format!("orchestrator/{path}");
        let found = self.all().into_iter().find(|node| node["path"] == path.as_str());
        found.unwrap_or_else(|| panic!("no {path} in {:#}", self.0))
    }

    /// All nodes, parents before their children.
    pub fn all(&self) -> Vec<&Value> {
        below(&self.0["root"])
    }

    /// Node of the child at `path` and all nodes below it.
    ///
    /// # Panics
    /// If there is no such child.
    pub fn branch(&self, path: &str) -> Vec<&Value> {
        below(self.node(path))
    }

    /// Returns true if every child is running.
    pub fn runs(&self) -> bool {
        self.all().iter().all(|node| node["state"] == "running")
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

fn below(node: &Value) -> Vec<&Value> {
    let children = node["children"].as_array().into_iter().flatten();
    std::iter::once(node).chain(children.flat_map(below)).collect()
}

/// Link of an edge, as the tree shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `idle`, `connecting`, `up`, `down` or `unanswered`.
    pub state: String,
    /// Reason for `down` and `unanswered`, otherwise empty.
    pub reason: String,
}

impl TestEnv {
    /// Snapshot of the tree, or None if the endpoint does not answer.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let reply =
            try_http(&self.admin_socket(), "GET", "/v1/tree", &["Accept: application/json"], "").ok()?;
        (reply.status == 200).then(|| Snapshot(reply.json()))
    }

    /// Makes the child at `path` panic once it is running.
    ///
    /// Actors and tasks panic between two steps, threads when they receive their next work.
    ///
    /// # Panics
    /// If the request is refused for a reason other than a child that is not running.
    pub fn inject_panic(&self, path: &str) {
        self.inject(path, "panic", "drill");
    }

    /// Sends the command `verb`, `panic` or `freeze`, to the child at `path` once it is running and the
    /// endpoint allows it.
    ///
    /// # Panics
    /// If the request is refused for another reason.
    pub fn inject(&self, path: &str, verb: &str, reason: &str) {
        let url = format!("/v1/actors/{path}/{verb}");
        let body = serde_json::json!({ "reason": reason }).to_string();
        wait_for(&format!("{path} to take a {verb}"), || {
            let json = ["Content-Type: application/json"];
            match try_http(&self.admin_socket(), "POST", &url, &json, &body) {
                Ok(reply) if matches!(reply.status, 200 | 202) => Some(()),
                Ok(reply) if reply.status == 409 => None,
                Ok(reply) => panic!("{path}: {} {}", reply.status, reply.body),
                // The endpoint may panic before it answers.
                Err(_) => (path == "admin").then_some(()),
            }
        });
    }

    /// Makes the subsystem at `path` panic once more often than the root restarts it within a minute. Returns
    /// once it is given up, or once the process has ended with it.
    pub fn exceed_restarts(&self, path: &str) {
        for _ in 0..4 {
            let restarts = |tree: &Snapshot| tree.node(path)["restarts"].as_u64();
            let before = self.snapshot().as_ref().and_then(restarts);
            self.inject_panic(path);
            // A branch that panics stops its children first, and takes a second panic without effect
            // meanwhile.
            crate::eventually("the panic to have its effect", || {
                self.snapshot()
                    .is_none_or(|tree| restarts(&tree) > before || tree.node(path)["state"] == "given_up")
            });
        }
    }

    /// Current node of the child at `path`, such as `queue/queue_store`.
    ///
    /// # Panics
    /// If there is no such child.
    pub fn node(&self, path: &str) -> Value {
        let reply =
            http(&self.admin_socket(), "GET", &format!("/v1/tree/{path}"), &["Accept: application/json"], "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()["root"].clone()
    }

    /// Link of the edge at `path`.
    ///
    /// # Panics
    /// If it has no link within the deadline.
    pub fn link(&self, path: &str) -> Link {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        wait_for("a link", || {
            let node = self.node(path);
            let link = node.get("link").filter(|link| !link.is_null())?;
            Some(Link { state: text(&link["state"]), reason: text(&link["reason"]) })
        })
    }

    /// TCP address of the admin endpoint; requires `admin.listen=127.0.0.1:0`.
    ///
    /// # Panics
    /// If it does not listen on TCP.
    pub fn admin_tcp(&self) -> std::net::SocketAddr {
        let node = self.node("admin");
        let endpoint = node["link"]["endpoint"].as_str().unwrap_or_default();
        let first = endpoint.split(' ').next().and_then(|url| url.strip_prefix("http://"));
        first.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no tcp: {endpoint}"))
    }

    /// TCP address of the probes; requires `admin.probe_listen=127.0.0.1:0`.
    ///
    /// # Panics
    /// If there is none.
    pub fn admin_probe(&self) -> std::net::SocketAddr {
        let node = self.node("admin");
        let endpoint = node["link"]["endpoint"].as_str().unwrap_or_default();
        let mut all = endpoint.split(" and ");
        let probe = all.find_map(|url| url.strip_prefix("http://")?.strip_suffix(" (probes)"));
        probe.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no probes: {endpoint}"))
    }

    /// Value of a metric of the child at `path`.
    ///
    /// # Panics
    /// If it is not registered within the deadline.
    pub fn metric(&self, path: &str, name: &str) -> u64 {
        wait_for(&format!("metric {name} of {path}"), || {
            let node = self.node(path);
            node["metrics"].as_array()?.iter().find(|metric| metric["name"] == name)?["value"].as_u64()
        })
    }

    /// Sends the command `verb` to the child at `path`.
    ///
    /// # Panics
    /// If it is refused.
    pub fn actor_command(&self, path: &str, verb: &str) -> HttpReply {
        let url = format!("/v1/actors/{path}/{verb}");
        let reply = http(&self.admin_socket(), "POST", &url, &["Content-Type: application/json"], "{}");
        assert_eq!(reply.status, 200, "{verb} {path}: {}", reply.body);
        reply
    }
}
