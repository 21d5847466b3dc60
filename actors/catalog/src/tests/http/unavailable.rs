//! A server that is down and comes back.

use std::time::{Duration, Instant};

use orchestrator_harness::Ermrest;
use serde_json::json;

use super::fixture::*;
use crate::{
    edge::{credentials::Source, http::Timeouts},
    service::RequestError,
};

const FOO: &str = "/entity/Foo";

#[test]
fn the_child_starts_without_a_server_and_detects_its_return() {
    let mut server = Ermrest::start(&[]);
    server.insert_foo(2, "new");
    server.stop();
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        assert_eq!(link(&tree).state.name(), "connecting", "nobody has asked for anything yet");
        for _ in 0..2 {
            let Err(RequestError::Unavailable(text)) = get(&catalog, FOO).await else { panic!() };
            assert!(
                text.starts_with("no answer to GET /entity/Foo: cannot connect to http://localhost:"),
                "{text}"
            );
        }
        let Err(RequestError::Unavailable(_)) = put(&catalog, FOO, json!([])).await else {
            panic!("nothing of it can have been sent")
        };
        let down = link(&tree);
        assert_eq!((&*down.kind, &*down.endpoint), ("ermrest", &*server.url()));
        assert!(down.reason.unwrap().contains("check that it runs there"));
        server.start_again();
        eventually("the link is up", || is_up(&tree)).await;
        assert_eq!(rows(get(&catalog, FOO).await).1.len(), 2, "a server that was stopped has its rows again");
    });
}

#[test]
fn a_restarted_server_is_used_by_the_next_request() {
    let mut server = Ermrest::start(&[]);
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        assert!(get(&catalog, FOO).await.is_ok());
        for _ in 0..3 {
            server.kill_nine();
            assert!(matches!(get(&catalog, FOO).await, Err(RequestError::Unavailable(_))));
            assert!(!is_up(&tree));
            server.start_again();
            assert!(get(&catalog, FOO).await.is_ok(), "nothing but the next call is waited for");
            assert!(is_up(&tree));
        }
    });
}

#[test]
fn an_unknown_host_is_unavailable_and_not_rejected() {
    let (catalog, spec) = to("http://nobody.invalid/ermrest/catalog/1");
    TestTree::run(spec, async |tree| {
        assert!(matches!(get(&catalog, FOO).await, Err(RequestError::Unavailable(_))));
        assert_eq!(link(&tree).state.name(), "down");
    });
}

#[test]
fn idle_connections_are_closed_and_used_ones_are_kept() {
    let server = Ermrest::start(&[]);
    let idle = Duration::from_secs(1);
    let timeouts = Timeouts { idle, ..Timeouts::default() };
    let (catalog, spec) = with(endpoint(&server.url()).timeouts(timeouts), Source::Anonymous);
    TestTree::run(spec, async |_tree| {
        let begun = Instant::now();
        while begun.elapsed() < idle * 3 / 2 {
            assert!(get(&catalog, FOO).await.is_ok());
        }
        assert_eq!(server.log()["connections"], json!(1), "one that is used does not grow old");
        eventually("it is closed", || open_connections(server.port()) == 0).await;
        assert!(get(&catalog, FOO).await.is_ok());
    });
    assert_eq!(server.log()["connections"], json!(2));
}
