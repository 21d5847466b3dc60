//! `GET /v1/tree` and `/v1/tree/{path}`.

use crate::site;

#[test]
fn the_whole_tree_is_returned_as_json() {
    site::run(|site| async move {
        let reply = site.get("/v1/tree").await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let tree = reply.tree();
        assert_eq!(tree.root.path, "test");
        let store = tree.root.find("test/demo/store").unwrap();
        assert_eq!((store.state.name(), store.kind.as_str(), store.console), ("running", "actor", true));
        assert_eq!(store.metrics[0].name, "hand_outs");
        let admin = tree.root.find("test/admin").unwrap();
        assert_eq!(admin.link.as_ref().unwrap().state.name(), "up");
        assert_eq!(admin.arbiter.as_deref(), Some("test/admin"));
    });
}

#[test]
fn the_tree_is_returned_over_the_unix_socket() {
    site::run(|site| async move {
        let reply = site.send_unix("GET /v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.tree().root.path, "test");
    });
}

#[test]
fn a_subtree_is_found_with_or_without_the_name_of_the_root() {
    site::run(|site| async move {
        for path in [
            "/v1/tree/demo/store",
            "/v1/tree/test/demo/store",
            "/v1/tree/demo%2Fstore",
            "/v1/tree/demo/store/",
        ] {
            let reply = site.get(path).await;
            assert_eq!(reply.status, 200, "{path}: {reply:?}");
            assert_eq!(reply.tree().root.path, "test/demo/store", "{path}");
        }
        assert_eq!(site.get("/v1/tree/").await.tree().root.path, "test");
    });
}

#[test]
fn unknown_paths_are_404() {
    site::run(|site| async move {
        for path in [
            "missing",
            "demo/..",
            "../demo",
            "demo/../demo/store",
            "%2e%2e/demo",
            "demo//store",
            "demo/store%00",
        ] {
            let (status, message) = site.get(&format!("/v1/tree/{path}")).await.error();
            assert_eq!(status, 404, "{path}");
            assert!(message.contains("there is no child"), "{message}");
        }
    });
}

#[test]
fn text_is_returned_on_request() {
    site::run(|site| async move {
        let reply = site.get_text("/v1/tree").await;
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
        assert!(reply.body.contains("├─ demo") && reply.body.contains("fake up"), "{}", reply.body);
        let part = site.get_text("/v1/tree/demo/source").await;
        assert_eq!(part.body.lines().count(), 2, "{}", part.body);
        assert!(part.body.contains("test/demo/source (the \"tap\")"), "{}", part.body);
    });
}
