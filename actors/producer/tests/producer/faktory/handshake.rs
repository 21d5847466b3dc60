//! How a connection begins.

use orchestrator_harness::Faktory as Peer;
use orchestrator_producer::edge::faktory::{Flow, Password, Pushed, Server};

use super::fixture::*;

#[test]
fn servers_with_and_without_password_in_pieces_and_secured_take_jobs() {
    for options in [&[][..], &["--split-writes"], &["--password", "open sesame"]] {
        let peer = Peer::start(options);
        let password = Password::new("open sesame\n");
        let server = Server::new(&peer.url(), None, password).unwrap();
        takes_jobs(server, &peer);
    }
    let peer = Peer::start_tls();
    let server = Server::new(&peer.url(), Some(&Peer::ca_file()), None).unwrap();
    takes_jobs(server, &peer);
}

fn takes_jobs(server: Server, peer: &Peer) {
    let (faktory, spec) = with(server, Flow::default());
    TestTree::run(spec, async |tree| {
        assert_eq!(faktory.push(0, batch(0..3)).await, Ok(Pushed::default()));
        assert_eq!(faktory.push(0, batch(3..4)).await, Ok(Pushed::default()));
        assert_eq!(faktory.info().await.unwrap().length("arborescent"), 4);
        assert_eq!(numbers(&peer.accepted()), [0, 1, 2, 3]);
        assert!(is_up(&tree, 0));
    });
}

#[test]
fn a_password_that_is_wrong_or_missing_is_told_and_not_shown() {
    let peer = Peer::start(&["--password", "open sesame"]);
    for (password, said) in [
        (Password::new("open barley"), "Invalid password: correct the file that password_file names"),
        (None, "it wants a password: name the file that has it in password_file"),
    ] {
        let server = Server::new(&peer.url(), None, password).unwrap();
        let (faktory, spec) = with(server, Flow::default());
        TestTree::run(spec, async |tree| {
            let reason = down(&tree, said).await;
            assert!(
                reason.starts_with(&format!("cannot connect to faktory at {}: ", peer.url())),
                "{reason}"
            );
            let told = faktory.info().await.unwrap_err().to_string();
            assert!(told.contains(said), "{told}");
            assert!(!format!("{:?}", tree.snapshot()).contains("barley"));
        });
    }
}

#[test]
fn a_server_that_we_cannot_be_sure_of_is_not_spoken_to() {
    let peer = Peer::start_tls();
    for (url, said) in [
        (peer.url(), "ca_file has the authority of its certificate"),
        // The certificate is good, for another name.
        (peer.url().replace("localhost", "127.0.0.1"), "ca_file has the authority"),
        (peer.url().replace("tcp+tls", "tcp"), "no handshake within"),
    ] {
        let authority = url.contains("127.0.0.1").then(Peer::ca_file);
        let server = Server::new(&url, authority.as_deref(), None).unwrap().patience(SHORT);
        let (_faktory, spec) = with(server, Flow::default());
        TestTree::run(spec, async |tree| drop(down(&tree, said).await));
    }
    assert!(peer.accepted().is_empty());
}

#[test]
fn a_server_with_too_many_connections_keeps_those_that_it_has() {
    let peer = Peer::start(&["--max-conn", "1"]);
    let server = Server::new(&peer.url(), None, None).unwrap();
    let (faktory, spec) = with(server, Flow { connections: 2, ..Flow::default() });
    TestTree::run(spec, async |tree| {
        let full = |at: usize| {
            let link = node(&tree, at).link;
            link.and_then(|link| link.reason).is_some_and(|reason| reason.contains("too many connections"))
        };
        eventually("one is in and one is not", || {
            (is_up(&tree, 0) && full(1)) || (is_up(&tree, 1) && full(0))
        })
        .await;
        let in_ = usize::from(is_up(&tree, 1));
        assert_eq!(faktory.push(in_, batch(0..5)).await, Ok(Pushed::default()));
        assert_eq!(peer.accepted().len(), 5);
    });
}
