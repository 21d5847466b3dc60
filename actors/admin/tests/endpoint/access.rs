//! Authentication, roles and the audit log.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use orchestrator_admin::{AdminConfig, ProgramInfo, Reload};
use orchestrator_supervise::{Command, Origin, testing::eventually};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::UnixStream};

use crate::site::{self, Reply, Site, post};

const EVE: &str = "token-of-viewer-eve-01";
const BOB: &str = "token-of-operator-bob1";

pub(crate) fn write_tokens(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(fresh, path).unwrap();
}

/// Runs `test` on a site with a viewer, an operator and an audit log.
fn guarded<Fut: Future<Output = ()>>(test: impl FnOnce(Site) -> Fut) {
    let guard = |config: &mut AdminConfig| {
        let directory = config.unix_socket.clone().unwrap();
        config.tokens_file = directory.with_file_name("tokens");
        config.audit_file = directory.with_file_name("audit.jsonl");
        write_tokens(&config.tokens_file, &format!("viewer eve {EVE}\noperator bob {BOB}\n"));
    };
    site::run_with(guard, ProgramInfo::default(), test);
}

async fn with_token(site: &Site, method: &str, path: &str, token: &str, body: &str) -> Reply {
    let length = body.len();
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
    site.send(&format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}Content-Length: {length}\r\n\r\n{body}"
    ))
    .await
}

fn audit(site: &Site) -> Vec<Value> {
    let text = fs::read_to_string(site.socket.with_file_name("audit.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_over_tcp_without_a_valid_token_are_401() {
    guarded(|site| async move {
        let bearer = format!("Bearer {BOB}x");
        let basic = format!("Basic {BOB}");
        let routes = [
            ("GET", "/v1/tree"),
            ("GET", "/v1/tree/demo"),
            ("GET", "/v1/events"),
            ("GET", "/v1/crashes"),
            ("GET", "/v1/info"),
            ("GET", "/v1/config"),
            ("GET", "/metrics"),
            ("GET", "/openapi.json"),
            ("GET", "/readyz?verbose"),
            ("GET", "/nowhere"),
            ("POST", "/v1/actors/demo/source/stop"),
            ("POST", "/v1/consoles/demo/store/echo"),
        ];
        for (method, path) in routes {
            for token in ["", "Bearer", "Bearer ", bearer.as_str(), basic.as_str()] {
                let reply = with_token(&site, method, path, token, "").await;
                assert_eq!(reply.error().0, 401, "{method} {path} {token}");
                assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
            }
        }
        assert_eq!(site.metric("refused_unauthorized"), 60);
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
        assert_eq!(audit(&site), Vec::<Value>::new(), "unauthenticated requests write no audit lines");
        assert_eq!(site.get("/livez").await.status, 200);
        assert_eq!(site.get("/readyz").await.status, 200);
    });
}

#[test]
fn readyz_without_a_token_has_no_reasons() {
    guarded(|site| async move {
        site.link.down("mongodb://user:S3CR3T?x is no address", Duration::from_secs(5));
        let reply = site.get("/readyz").await;
        assert_eq!((reply.status, reply.body.as_str()), (503, "failed: test/demo/store\n"));
        let reply = with_token(&site, "GET", "/readyz", &format!("Bearer {EVE}"), "").await;
        assert!(reply.body.contains("store: fake to fake:1 is down: mongodb://"), "{}", reply.body);
    });
}

#[test]
fn a_viewer_may_read_and_an_operator_may_send_commands() {
    guarded(|site| async move {
        let (eve, bob) = (format!("Bearer {EVE}"), format!("bearer {BOB}"));
        for path in ["/v1/tree", "/v1/crashes", "/v1/info", "/metrics", "/readyz?verbose", "/openapi.json"] {
            assert_eq!(with_token(&site, "GET", path, &eve, "").await.status, 200, "{path}");
        }
        for path in
            ["/v1/actors/demo/source/stop", "/v1/consoles/demo/store/echo", "/v1/actors/admin/restart"]
        {
            let (status, message) = with_token(&site, "POST", path, &eve, "").await.error();
            assert_eq!(status, 403, "{path}");
            assert!(message.contains("operator"), "{message}");
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
        assert_eq!(site.tree.child("admin").unwrap().incarnation(), 1);
        assert_eq!(site.metric("refused_forbidden"), 3);
        let reply =
            with_token(&site, "POST", "/v1/actors/demo/source/stop", &bob, r#"{"reason":"why not"}"#).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let lines = audit(&site);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!((&lines[0]["who"], &lines[0]["role"]), (&json!("eve"), &json!("viewer")));
        assert!(lines[0]["outcome"].as_str().unwrap().starts_with("forbidden: "), "{}", lines[0]);
        let mut last = lines[3].clone();
        assert!(last["at"].take().as_str().unwrap().ends_with('Z'));
        let expected = json!({
            "at": null, "who": "bob", "role": "operator", "path": "test/demo/source", "verb": "stop",
            "reason": "why not", "outcome": "ok", "before": "running", "after": "stopped",
        });
        assert_eq!(last, expected);
        assert_eq!(site.metric("audit_lines"), 4);
    });
}

#[test]
fn the_owner_of_the_socket_needs_no_token() {
    guarded(|site| async move {
        let request = post("/v1/consoles/demo/store/echo", r#"{"n": 1, "reason": "to\nsee"}"#);
        assert_eq!(site.send_unix(&request).await.status, 200);
        let request = post("/v1/actors/demo/store/pause", "");
        assert_eq!(site.send_unix(&request).await.status, 409);
        let lines = audit(&site);
        let [echo, pause] = lines.as_slice() else { panic!("{lines:?}") };
        let who = echo["who"].as_str().unwrap();
        assert!(who.starts_with("uid ") && who.ends_with("over the admin socket"), "{who}");
        assert_eq!(
            (&echo["args"]["n"], &echo["reason"], &echo["outcome"]),
            (&json!(1), &json!(r"to\nsee"), &json!("ok"))
        );
        assert!(pause["outcome"].as_str().unwrap().starts_with("refused: "), "{pause}");
        assert_eq!((&pause["before"], &pause["after"]), (&json!("running"), &json!("running")));
    });
}

#[test]
fn a_viewer_may_use_verbs_that_only_read_and_they_are_not_audited() {
    guarded(|site| async move {
        let (eve, bob) = (format!("Bearer {EVE}"), format!("Bearer {BOB}"));
        let path = "/v1/consoles/demo/store/look";
        for token in [&bob, &eve] {
            assert_eq!(with_token(&site, "POST", path, token, "").await.status, 200);
        }
        assert_eq!(audit(&site), Vec::<Value>::new(), "both only read");
        for verb in ["echo", "unknown"] {
            let path = format!("/v1/consoles/demo/store/{verb}");
            assert_eq!(with_token(&site, "POST", &path, &eve, "").await.status, 403, "{verb}");
            assert_eq!(audit(&site).last().map(|line| line["verb"].clone()), Some(json!(verb)));
        }
        // No line is needed, so a full disk does not keep operators from reading.
        let file = site.socket.with_file_name("audit.jsonl");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(with_token(&site, "POST", path, &bob, "").await.status, 200);
        assert_eq!(with_token(&site, "POST", "/v1/consoles/demo/store/echo", &bob, "").await.status, 503);
    });
}

#[test]
fn a_command_that_cannot_be_audited_is_refused() {
    guarded(|site| async move {
        let path = site.socket.with_file_name("audit.jsonl");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        for request in ["/v1/actors/demo/source/stop", "/v1/consoles/demo/store/panic"] {
            let (status, message) = site.send_unix(&post(request, "")).await.error();
            assert_eq!(status, 503);
            assert!(message.contains("audit.jsonl") && message.contains("was not executed"), "{message}");
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
        assert_eq!(site.tree.child("demo/store").unwrap().incarnation(), 1);
        assert_eq!(site.metric("refused_unaudited"), 2);
        fs::remove_dir(&path).unwrap();
        assert_eq!(site.send_unix(&post("/v1/actors/demo/source/stop", "")).await.status, 200);
        assert_eq!(audit(&site).len(), 1);
    });
}

#[test]
fn an_abandoned_command_is_audited() {
    guarded(|site| async move {
        let mut stream = UnixStream::connect(&site.socket).await.unwrap();
        let request = post("/v1/consoles/demo/store/hang", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        let store = site.tree.vitals("demo/store").unwrap();
        eventually("the store handles the request", || store.in_progress().is_some()).await;
        // The endpoint's drain time is shorter than the time-out of a console.
        site.tree.command("admin", Command::Restart, &Origin::default()).await.unwrap();
        let line = audit(&site).pop().expect("a line");
        assert!(line["outcome"].as_str().unwrap().starts_with("abandoned: "), "{line}");
        assert_eq!((&line["path"], &line["verb"]), (&json!("test/demo/store"), &json!("hang")));
    });
}

#[test]
fn tokens_are_added_and_removed_at_run_time() {
    let reload = Reload::default();
    let program_info = ProgramInfo { reload: reload.clone(), ..ProgramInfo::default() };
    let guard = |config: &mut AdminConfig| {
        config.tokens_file = config.unix_socket.clone().unwrap().with_file_name("tokens");
        write_tokens(&config.tokens_file, "");
    };
    site::run_with(guard, program_info, |site| async move {
        let tokens = site.socket.with_file_name("tokens");
        let eve = format!("Bearer {EVE}");
        assert_eq!(with_token(&site, "GET", "/v1/tree", &eve, "").await.status, 401);
        write_tokens(&tokens, &format!("viewer eve {EVE}"));
        assert_eq!(with_token(&site, "GET", "/v1/tree", &eve, "").await.status, 200);
        for broken in [true, false] {
            if broken {
                write_tokens(&tokens, "nonsense")
            } else {
                fs::remove_file(&tokens).unwrap()
            }
            assert_eq!(with_token(&site, "GET", "/v1/tree", &eve, "").await.status, 401, "{broken}");
            let own = "GET /v1/tree HTTP/1.1\r\nHost: localhost\r\n\r\n";
            assert_eq!(site.send_unix(own).await.status, 200, "the admin socket needs no token");
            write_tokens(&tokens, &format!("viewer eve {EVE}"));
            assert_eq!(with_token(&site, "GET", "/v1/tree", &eve, "").await.status, 200);
        }
        write_tokens(&tokens, "");
        reload.request();
        assert_eq!(with_token(&site, "GET", "/v1/tree", &eve, "").await.status, 401);
    });
}

#[test]
fn info_and_config_describe_the_program() {
    let program_info = ProgramInfo {
        version: "1.2.3".to_owned(),
        subsystems: vec!["demo".to_owned()],
        config: json!({ "admin": { "listen": "x" } }),
        ..ProgramInfo::default()
    };
    site::run_with(
        |_| {},
        program_info,
        |site| async move {
            let info = site.get("/v1/info").await.json();
            assert_eq!((&info["version"], &info["subsystems"]), (&json!("1.2.3"), &json!(["demo"])));
            assert_eq!(info["pid"], json!(std::process::id()));
            assert!(info["limits"]["open_fds"]["soft"].as_u64().unwrap() > 3, "{info}");
            assert!(
                info["arbiters"].as_array().unwrap().iter().any(|one| one["name"] == "supervision"),
                "{info}"
            );
            assert_eq!(info["started_at_ms"], site.get("/v1/info").await.json()["started_at_ms"]);
            assert_eq!(site.get("/v1/config").await.json(), json!({ "admin": { "listen": "x" } }));
            let document = site.get("/openapi.json").await;
            assert_eq!(document.header("content-type"), Some("application/json"));
            assert_eq!(document.json()["openapi"], "3.1.0");
        },
    );
}

#[test]
fn only_allowed_hosts_are_accepted() {
    site::run_with(
        |config| config.allowed_hosts = vec!["queue.example".to_owned()],
        ProgramInfo::default(),
        |site| async move {
            let ask = |host: &'static str| format!("GET /v1/tree HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(site.send(&ask("queue.example:7117")).await.status, 200);
            for host in ["evil.example", "queue.example.evil.example"] {
                assert_eq!(site.send(&ask(host)).await.error().0, 403, "{host}");
            }
            assert_eq!(site.metric("refused_origin"), 2);
        },
    );
}
