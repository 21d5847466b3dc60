//! Where the endpoint listens, and what happens when somebody else is there already.

use std::{net::TcpListener, time::Duration};

use orchestrator_admin::{About, AdminConfig, Binding, child_spec};
use orchestrator_supervise::{
    Exit, Root, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};
use tokio::net::UnixStream;

use crate::site::{self, talk};

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn root(config: &AdminConfig, binding: Binding) -> SupervisorSpec {
    let (_store, demo) = site::subtree();
    SupervisorSpec::new(Strategy::OneForOne).child(demo).child(child_spec(config, binding, About::default()))
}

/// What the root says when the endpoint does not start.
fn refusal(config: &AdminConfig) -> String {
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
fn a_busy_port_ends_a_required_endpoint_with_what_to_do() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = other.local_addr().unwrap().to_string();
    let text = refusal(&AdminConfig { listen: listen.clone(), ..AdminConfig::default() });
    assert!(text.contains(&listen) && text.contains("free the port"), "{text}");
}

#[test]
fn a_busy_port_is_a_warning_for_an_optional_endpoint_and_is_tried_again() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = AdminConfig { listen: address.to_string(), ..site::config(&directory) };
    TestTree::run(root(&config, Binding::Optional), |tree| async move {
        let link = || tree.node("admin").unwrap().link.unwrap();
        assert_eq!(link().state, "down");
        assert!(link().reason.unwrap().contains("free the port"));
        let socket = directory.path().join("admin.sock");
        let ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let reply = talk(UnixStream::connect(&socket).await.unwrap(), ready).await;
        assert_eq!(reply.status, 200, "the socket serves meanwhile: {reply:?}");
        drop(other);
        eventually("the port is taken over", || link().state == "up").await;
        let reply = talk(tokio::net::TcpStream::connect(address).await.unwrap(), LIVEZ).await;
        assert_eq!(reply.status, 200);
        let reply = talk(UnixStream::connect(&socket).await.unwrap(), LIVEZ).await;
        assert_eq!(reply.status, 200, "and so does the socket");
        assert_eq!(tree.vitals("admin").unwrap().restarts(), 0);
    });
}

#[test]
fn nothing_to_listen_on_is_a_child_that_idles() {
    let config = AdminConfig { listen: String::new(), ..AdminConfig::default() };
    TestTree::run(root(&config, Binding::Required), |tree| async move {
        assert_eq!(tree.vitals("admin").unwrap().state().name(), "running");
    });
}
