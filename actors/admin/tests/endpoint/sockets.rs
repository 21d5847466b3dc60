//! Listening sockets, and addresses in use.

use std::{net::TcpListener, time::Duration};

use orchestrator_admin::{AdminConfig, Binding, ProgramInfo, child_spec};
use orchestrator_observe::LinkStatus;
use orchestrator_supervise::{
    Exit, Root, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};
use tokio::net::UnixStream;

use crate::site::{self, exchange};

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn root(config: &AdminConfig, binding: Binding) -> SupervisorSpec {
    let (_store, demo) = site::subtree();
    SupervisorSpec::new(Strategy::OneForOne).child(demo).child(child_spec(
        config,
        binding,
        ProgramInfo::default(),
    ))
}

fn start_error(config: &AdminConfig) -> String {
    let spec = root(config, Binding::Required);
    actix_rt::System::new().block_on(async {
        let mut root = Root::start("test", spec).await.unwrap();
        match tokio::time::timeout(Duration::from_secs(20), root.wait()).await.unwrap() {
            Exit::Failed(fault) => fault.to_string(),
            other => panic!("{other}"),
        }
    })
}

#[test]
fn a_busy_port_prevents_the_start_of_a_required_endpoint() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = other.local_addr().unwrap().to_string();
    let text = start_error(&AdminConfig { listen: listen.clone(), ..AdminConfig::default() });
    assert!(text.contains(&listen) && text.contains("free the port"), "{text}");
}

#[test]
fn an_optional_endpoint_retries_a_busy_port() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = AdminConfig { listen: address.to_string(), ..site::config(&directory) };
    TestTree::run(root(&config, Binding::Optional), |tree| async move {
        let link = || tree.node("admin").unwrap().link.unwrap();
        assert_eq!(link().state.name(), "down");
        assert!(link().reason.unwrap().contains("free the port"));
        let socket = directory.path().join("admin.sock");
        let ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let reply = exchange(UnixStream::connect(&socket).await.unwrap(), ready).await;
        assert_eq!(reply.status, 200, "the unix socket works meanwhile: {reply:?}");
        drop(other);
        eventually("the port is opened", || link().state == LinkStatus::Up).await;
        let reply = exchange(tokio::net::TcpStream::connect(address).await.unwrap(), LIVEZ).await;
        assert_eq!(reply.status, 200);
        let reply = exchange(UnixStream::connect(&socket).await.unwrap(), LIVEZ).await;
        assert_eq!(reply.status, 200, "the unix socket still works");
        assert_eq!(tree.child("admin").unwrap().restarts(), 0);
    });
}

#[test]
fn an_endpoint_without_addresses_is_idle() {
    let config = AdminConfig { listen: String::new(), ..AdminConfig::default() };
    TestTree::run(root(&config, Binding::Required), |tree| async move {
        assert_eq!(tree.child("admin").unwrap().state().name(), "running");
    });
}
