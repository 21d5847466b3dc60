//! Who may do what at the admin endpoint of the real binary, and how it is noted.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use orchestrator_harness::{EventReader, Instance, SmallDisk, TestEnv, eventually, http, http_tcp};
use serde_json::Value;

const VIEWER: &str = "viewer-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";

fn site() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).expect("write a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("chmod a file of ours");
}

/// A site with tokens and an audit log, not started yet.
fn guarded() -> (TestEnv, PathBuf) {
    let site = site();
    let (tokens, audit) = (site.path().join("tokens"), site.path().join("audit.jsonl"));
    private(&tokens, &format!("# who\nviewer eve {VIEWER}\noperator bob {OPERATOR}\n"));
    let site = site
        .set(&format!("admin.tokens_file={}", tokens.display()))
        .set(&format!("admin.audit_file={}", audit.display()));
    (site, audit)
}

fn lines(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_restart_shows_in_tree_events_audit_and_metrics() {
    let (site, audit) = guarded();
    let _instance = site.start();
    // Workers are served before the watcher's first start, which would be the one that the command asks for.
    eventually("all children to run", || site.snapshot().is_some_and(|tree| tree.runs()));
    let before = site.node("queue/fetcher_watcher");
    let mut events = EventReader::unix(&site.admin_socket(), "", &[]).expect("a stream");
    let (code, out, err) = site.cli(&["restart", "queue/fetcher_watcher", "--reason", "x"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "orchestrator/queue/fetcher_watcher: running -> running\n"),
        "{err}"
    );
    let told = events.find(|told| told.event == "commanded");
    assert_eq!(told.data["path"], "orchestrator/queue/fetcher_watcher");
    assert_eq!((&told.data["verb"], &told.data["reason"]), (&"restart".into(), &"x".into()));
    let after = site.node("queue/fetcher_watcher");
    assert_eq!(after["incarnation"].as_u64(), before["incarnation"].as_u64().map(|n| n + 1));
    let line = lines(&audit).pop().expect("a line");
    let shown = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        ["path", "verb", "reason", "role", "outcome", "before", "after"].map(shown),
        ["orchestrator/queue/fetcher_watcher", "restart", "x", "operator", "ok", "running", "running"]
    );
    assert!(shown("who").starts_with("uid ") && shown("who").contains("pid "), "{line}");
    assert_eq!(fs::metadata(&audit).expect("the log").permissions().mode() & 0o777, 0o600);
    let metrics = http(&site.admin_socket(), "GET", "/metrics", &[], "").body;
    for sample in [
        r#"orchestrator_child_restarts_total{path="orchestrator/queue/fetcher_watcher"} 1"#,
        r#"orchestrator_admin_audit_lines_total{path="orchestrator/admin"} 1"#,
        r#"orchestrator_admin_event_clients{path="orchestrator/admin"} 1"#,
    ] {
        assert!(metrics.lines().any(|line| line == sample), "no {sample} in {metrics}");
    }
    let (code, out, err) = site.cli(&["tail", "queue/fetcher_watcher", "--no-follow", "-n", "100", "--json"]);
    assert_eq!(code, 0, "{err}");
    let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(told.iter().any(|event| event["event"] == "commanded" && event["reason"] == "x"), "{out}");
    assert!(told.iter().all(|event| event["path"] == "orchestrator/queue/fetcher_watcher"), "{out}");
    let (_, words, _) = site.cli(&["tail", "--no-follow", "-n", "100", "--kind", "commanded"]);
    assert!(words.lines().count() == 1 && words.contains("reason=\"x\"") && words.contains('Z'), "{words}");
}

#[test]
fn a_viewer_cannot_command_and_an_operator_can() {
    let (site, audit) = guarded();
    let _instance = site.start();
    let url = format!("http://{}", site.admin_tcp());
    let file = |name: &str, token: &str| {
        let path = site.path().join(name);
        private(&path, &format!("{token}\n"));
        path.display().to_string()
    };
    let (viewer, operator) = (file("viewer", VIEWER), file("operator", OPERATOR));
    let cli = |arguments: &[&str]| site.cli(&[arguments, &["--url", &url]].concat());
    let (code, _, err) = cli(&["tree"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("--token-file"), "{err}");
    assert_eq!(cli(&["tree", "--token-file", &viewer]).0, 0);
    let incarnation = || site.node("queue/fetcher_watcher")["incarnation"].as_u64();
    for command in [["restart", "queue/fetcher_watcher"], ["queue", "pause"]] {
        let (code, _, err) = cli(&[&command[..], &["--token-file", &viewer]].concat());
        assert_eq!(code, 5, "{command:?}: {err}");
        assert!(err.contains("operator"), "{err}");
    }
    assert_eq!(incarnation(), Some(1));
    let (code, _, err) = cli(&["restart", "queue/fetcher_watcher", "--token-file", &operator]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(incarnation(), Some(2));
    let who: Vec<String> =
        lines(&audit).iter().map(|line| format!("{} {}", line["who"], line["verb"])).collect();
    assert_eq!(who, ["\"eve\" \"restart\"", "\"eve\" \"pause\"", "\"bob\" \"restart\""]);
    assert!(!site.log().contains(OPERATOR) && !site.log().contains(VIEWER));
    assert!(!fs::read_to_string(&audit).expect("the log").contains(OPERATOR));
}

/// Exit code and log of a start that is refused, and the same of `check`.
fn refused(site: &TestEnv) -> String {
    let command = site.command();
    assert_eq!(Instance::spawn(site.command()).wait().code(), Some(78), "{}", site.log());
    let arguments: Vec<_> =
        command.get_args().skip(1).map(|one| one.to_string_lossy().into_owned()).collect();
    let mut check = vec!["check"];
    check.extend(arguments.iter().map(String::as_str));
    let (code, _, err) = site.cli(&check);
    assert_eq!(code, 78, "{err}");
    assert!(!site.log().contains("panicked"), "{}", site.log());
    err
}

#[test]
fn the_world_is_let_in_only_with_tokens() {
    let open = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=0.0.0.0:0");
    let text = refused(&open);
    assert!(text.contains("admin.tokens_file"), "{text}");
    let tokens = open.path().join("tokens");
    private(&tokens, &format!("operator bob {OPERATOR}\n"));
    let open = open.set(&format!("admin.tokens_file={}", tokens.display()));
    let _instance = open.start();
    let port = open.admin_tcp().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 401);
    let bearer = format!("Authorization: Bearer {OPERATOR}");
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[&bearer], "").status, 200);
}

#[test]
fn a_bad_tokens_file_is_refused_with_every_bad_line_and_no_token() {
    let (site, _) = guarded();
    let tokens = site.path().join("tokens");
    private(&tokens, &format!("viewer eve short\n{OPERATOR}\nviewer eve {VIEWER}\nadmin bob {OPERATOR}\n"));
    let text = refused(&site);
    for line in [1, 2, 4] {
        assert!(text.contains(&format!("tokens:{line}: ")), "{text}");
    }
    assert!(!text.contains(OPERATOR) && !site.log().contains(OPERATOR), "{text}");
    private(&tokens, &format!("viewer eve {VIEWER}\n"));
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).expect("chmod a file of ours");
    let text = refused(&site);
    assert!(text.contains("chmod 600"), "{text}");
}

#[test]
fn a_command_is_refused_when_the_audit_log_is_full() {
    SmallDisk::with(1, "access::a_command_is_refused_when_the_audit_log_is_full", |disk| {
        let audit = disk.path().join("audit.jsonl");
        let site = site().set(&format!("admin.audit_file={}", audit.display()));
        let _instance = site.start();
        site.actor_command("queue/inotify", "pause");
        disk.fill();
        let stop = || http(&site.admin_socket(), "POST", "/v1/actors/queue/fetcher_watcher/stop", &[], "{}");
        let refused = stop();
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert!(refused.body.contains("nothing was done"), "{}", refused.body);
        assert_eq!(site.node("queue/fetcher_watcher")["state"], "running");
        assert_eq!(lines(&audit).len(), 1, "and no half line");
        disk.free();
        assert_eq!(stop().status, 200);
        assert_eq!(lines(&audit).len(), 2);
    });
}
