//! What the tree shows of an instance, asked over its admin socket, and chaos in it.

use std::fmt;

use serde_json::Value;

use crate::{HttpReply, TestEnv, http, try_http, wait_for};

/// The whole tree at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot(Value);

impl Snapshot {
    /// The child at `path`, e.g. `queue/queue_store`.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&self, path: &str) -> &Value {
        let path = format!("orchestrator/{path}");
        let found = self.all().into_iter().find(|node| node["path"] == path.as_str());
        found.unwrap_or_else(|| panic!("no {path} in {:#}", self.0))
    }

    /// All children, each before its own.
    pub fn all(&self) -> Vec<&Value> {
        below(&self.0["root"])
    }

    /// The child at `path` and all below it.
    ///
    /// # Panics
    /// If there is none.
    pub fn branch(&self, path: &str) -> Vec<&Value> {
        below(self.node(path))
    }

    /// Does everything run?
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

/// An edge's connection as the tree shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `connecting`, `up` or `down`.
    pub state: String,
    /// Why it is down, else empty.
    pub reason: String,
}

impl TestEnv {
    /// The whole tree; None if nobody answers now.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let reply =
            try_http(&self.admin_socket(), "GET", "/v1/tree", &["Accept: application/json"], "").ok()?;
        (reply.status == 200).then(|| Snapshot(reply.json()))
    }

    /// Makes the child at `path` panic, as soon as it runs. An actor or a task is hit between two steps, a thread at the next work
    /// that it takes in hand.
    ///
    /// # Panics
    /// If it is refused for another reason than that the child does not run.
    pub fn inject_panic(&self, path: &str) {
        let url = format!("/v1/actors/{path}/panic");
        wait_for(&format!("{path} to take a panic"), || {
            let json = ["Content-Type: application/json"];
            match try_http(&self.admin_socket(), "POST", &url, &json, "{\"reason\":\"drill\"}") {
                Ok(reply) if matches!(reply.status, 200 | 202) => Some(()),
                Ok(reply) if reply.status == 409 => None,
                Ok(reply) => panic!("{path}: {} {}", reply.status, reply.body),
                // The endpoint itself may have been hit before it could say so.
                Err(_) => (path == "admin").then_some(()),
            }
        });
    }

    /// The snapshot of the child at `path`, e.g. `queue/queue_store`.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&self, path: &str) -> Value {
        let reply =
            http(&self.admin_socket(), "GET", &format!("/v1/tree/{path}"), &["Accept: application/json"], "");
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        reply.json()["root"].clone()
    }

    /// The link of the edge at `path`.
    ///
    /// # Panics
    /// If it has none within the deadline.
    pub fn link(&self, path: &str) -> Link {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        wait_for("a link", || {
            let node = self.node(path);
            let link = node.get("link").filter(|link| !link.is_null())?;
            Some(Link { state: text(&link["state"]), reason: text(&link["reason"]) })
        })
    }

    /// Where the admin endpoint listens on TCP; set `admin.listen=127.0.0.1:0` before.
    ///
    /// # Panics
    /// If it does not.
    pub fn admin_tcp(&self) -> std::net::SocketAddr {
        let node = self.node("admin");
        let endpoint = node["link"]["endpoint"].as_str().unwrap_or_default();
        let first = endpoint.split(' ').next().and_then(|url| url.strip_prefix("http://"));
        first.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("no tcp: {endpoint}"))
    }

    /// A metric that the child at `path` declares.
    ///
    /// # Panics
    /// If it has not declared it within the deadline.
    pub fn metric(&self, path: &str, name: &str) -> u64 {
        wait_for(&format!("metric {name} of {path}"), || {
            let node = self.node(path);
            node["metrics"].as_array()?.iter().find(|metric| metric["name"] == name)?["value"].as_u64()
        })
    }

    /// `POST /v1/actors/{path}/{verb}`.
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
