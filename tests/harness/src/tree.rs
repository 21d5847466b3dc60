//! What the tree shows of an instance, asked over its admin socket.

use serde_json::Value;

use crate::{HttpReply, Site, http, wait_for};

/// An edge's connection as the tree shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// `connecting`, `up` or `down`.
    pub state: String,
    /// Why it is down, else empty.
    pub reason: String,
}

impl Site {
    /// The snapshot of the child at `path`, e.g. `queue/sqlite`.
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

    /// A figure that the child at `path` declares.
    ///
    /// # Panics
    /// If it has not declared it within the deadline.
    pub fn figure(&self, path: &str, name: &str) -> u64 {
        wait_for(&format!("figure {name} of {path}"), || {
            let node = self.node(path);
            node["figures"].as_array()?.iter().find(|figure| figure["name"] == name)?["value"].as_u64()
        })
    }

    /// `POST /v1/actors/{path}/{verb}`.
    ///
    /// # Panics
    /// If it is refused.
    pub fn steer(&self, path: &str, verb: &str) -> HttpReply {
        let url = format!("/v1/actors/{path}/{verb}");
        let reply = http(&self.admin_socket(), "POST", &url, &["Content-Type: application/json"], "{}");
        assert_eq!(reply.status, 200, "{verb} {path}: {}", reply.body);
        reply
    }
}
