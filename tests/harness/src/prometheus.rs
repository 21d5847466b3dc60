//! A private Prometheus server that scrapes two endpoints each second and evaluates alerting rules.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{eventually, free_port, http_tcp};

/// Running server. It is removed with its data when dropped.
#[derive(Debug)]
pub struct Prometheus {
    _directory: TempDir,
    address: SocketAddr,
    server: Child,
}

impl Prometheus {
    /// Starts a server with the rules of the file `rules` and waits until it has scraped `targets`, with
    /// `token`.
    ///
    /// # Panics
    /// If it is not installed, or does not start.
    pub fn start(rules: &Path, targets: [SocketAddr; 2], token: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("prometheus-").tempdir().expect("a directory");
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\nscrape_configs:\n  \
             - {{job_name: orchestrator, authorization: {{credentials: '{token}'}}, static_configs: [{{targets: ['{}', '{}']}}]}}\n",
            rules.display(),
            targets[0],
            targets[1]
        );
        fs::write(directory.path().join("prometheus.yml"), config).expect("write a file");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let server = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.path().join("log")).expect("a log"))
            .spawn()
            .expect("Prometheus is installed");
        let started = Self { _directory: directory, address, server };
        eventually("Prometheus to listen", || std::net::TcpStream::connect(address).is_ok());
        eventually("a scrape", || {
            let up = started.ask("/api/v1/query?query=sum(up)");
            up["data"]["result"][0]["value"][1] == "2"
        });
        started
    }

    /// Names and paths of the alerts that fire, each `NAME PATH`.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn firing(&self) -> Vec<String> {
        let answer = self.ask("/api/v1/alerts");
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |alert: &Value| {
            let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", label("alertname"), label("path"))
        };
        alerts.iter().filter(|alert| alert["state"] == "firing").map(text).collect()
    }

    fn ask(&self, path: &str) -> Value {
        serde_json::from_str(&http_tcp(self.address, "GET", path, &[], "").body).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
