//! Handshake with and without password and TLS.

use std::fs;

use orchestrator_harness::{CERTIFICATE_CASES, Faktory as Peer, certificate_file};
use tempfile::NamedTempFile;

use super::fixture::*;
use crate::edge::faktory::{PoolOptions, Server};

#[test]
fn jobs_are_pushed_with_and_without_password_and_tls() {
    for options in [&[][..], &["--split-writes"], &["--password", "open sesame"]] {
        let peer = Peer::start(options);
        let password = password_file("open sesame\n");
        let server = Server::new(&peer.url(), None, Some(password.path())).unwrap();
        assert_jobs_are_pushed(server, &peer);
    }
    let peer = Peer::start(&["--password", "open:s@same"]);
    let url = peer.url().replace("//", "//:open:s@same@");
    assert_jobs_are_pushed(Server::new(&url, None, None).unwrap(), &peer);
    let peer = Peer::start_tls(&[]);
    let server = Server::new(&peer.url(), Some(&Peer::ca_file()), None).unwrap();
    assert_jobs_are_pushed(server, &peer);
}

fn password_file(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

fn assert_jobs_are_pushed(server: Server, peer: &Peer) {
    let (faktory, spec) = with(server, PoolOptions::default());
    TestTree::run(spec, async |tree| {
        assert_eq!(push(&faktory, 0, batch(0..3)).await, Ok(None));
        assert_eq!(push(&faktory, 0, batch(3..4)).await, Ok(None));
        assert_eq!(faktory.info().await.unwrap().length("arborescent"), 4);
        assert_eq!(numbers(&peer.accepted()), [0, 1, 2, 3]);
        assert!(is_up(&tree, 0));
    });
}

#[test]
fn a_wrong_or_missing_password_is_reported_without_its_text() {
    let peer = Peer::start(&["--password", "open sesame"]);
    for (password, text) in
        [(Some(password_file("open barley")), "Invalid password"), (None, "it requires a password")]
    {
        let server = Server::new(&peer.url(), None, password.as_ref().map(|file| file.path())).unwrap();
        let (faktory, spec) = with(server, PoolOptions::default());
        TestTree::run(spec, async |tree| {
            let reason = down(&tree, text).await;
            assert!(
                reason.starts_with(&format!("cannot connect to faktory at {}: ", peer.url())),
                "{reason}"
            );
            let error = faktory.info().await.unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("producer.faktory.password_file"), "{error}");
            assert!(!format!("{:?}", tree.snapshot()).contains("barley"));
        });
    }
}

#[test]
fn a_server_with_an_untrusted_certificate_gets_no_jobs() {
    let peer = Peer::start_tls(&[]);
    for (url, text) in [
        (peer.url(), "ca_file has the authority of its certificate"),
        // The certificate is valid, for another name.
        (peer.url().replace("localhost", "127.0.0.1"), "ca_file has the authority"),
        (peer.url().replace("tcp+tls", "tcp"), "no handshake within"),
    ] {
        let authority = url.contains("127.0.0.1").then(Peer::ca_file);
        let server = Server::new(&url, authority.as_deref(), None).unwrap().timeouts(SHORT_HANDSHAKE);
        let (_faktory, spec) = with(server, PoolOptions::default());
        TestTree::run(spec, async |tree| drop(down(&tree, text).await));
    }
    assert!(peer.accepted().is_empty());
}

#[test]
fn a_server_is_judged_by_its_certificate() {
    let key = certificate_file("server").with_extension("key").display().to_string();
    for cases in CERTIFICATE_CASES.chunk_by(|one, next| one.shown == next.shown) {
        let peer = Peer::start_tls(&["--tls", &certificate_file(cases[0].shown).display().to_string(), &key]);
        for case in cases {
            let url = peer.url().replace("localhost", case.host);
            let server = Server::new(&url, Some(&certificate_file(case.authority)), None).unwrap();
            let (faktory, spec) = with(server, PoolOptions::default());
            TestTree::run(spec, async |tree| {
                let reason = match case.refused {
                    Some(reason) => Some(down(&tree, reason).await),
                    None => faktory.info().await.err().map(|error| error.to_string()),
                };
                case.judge(reason.as_deref());
            });
        }
    }
}

#[test]
fn a_refused_second_connection_does_not_affect_the_first() {
    let peer = Peer::start(&["--max-conn", "1"]);
    let server = Server::new(&peer.url(), None, None).unwrap();
    let (faktory, spec) = with(server, PoolOptions { connections: 2, ..PoolOptions::default() });
    TestTree::run(spec, async |tree| {
        let full = |at: usize| {
            let link = node(&tree, at).link;
            link.and_then(|link| link.reason).is_some_and(|reason| reason.contains("too many connections"))
        };
        eventually("one connection to be up and one refused", || {
            (is_up(&tree, 0) && full(1)) || (is_up(&tree, 1) && full(0))
        })
        .await;
        let connected = usize::from(is_up(&tree, 1));
        assert_eq!(push(&faktory, connected, batch(0..5)).await, Ok(None));
        assert_eq!(peer.accepted().len(), 5);
    });
}
