//! Roles and tokens of the admin endpoint, and its audit log.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use orchestrator_harness::{EventReader, Instance, SmallDisk, TestEnv, eventually, http, http_tcp};
use serde_json::Value;

pub(crate) const VIEWER: &str = "viewer-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";

pub(crate) fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=127.0.0.1:0")
}

fn write_private(path: &Path, text: &str) {
    fs::write(path, text).expect("write a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("chmod a file of ours");
}

/// Environment with tokens and an audit log.
pub(crate) fn env_with_tokens() -> (TestEnv, PathBuf) {
    let env = env();
    let (tokens, audit) = (env.path().join("tokens"), env.path().join("audit.jsonl"));
    write_private(&tokens, &format!("# who\nviewer eve {VIEWER}\noperator bob {OPERATOR}\n"));
    let env = env
        .set(&format!("admin.tokens_file={}", tokens.display()))
        .set(&format!("admin.audit_file={}", audit.display()));
    (env, audit)
}

fn lines(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_restart_appears_in_tree_events_audit_and_metrics() {
    let (env, audit) = env_with_tokens();
    let _instance = env.start();
    // Workers are served before the watcher's first start, which must not count as the restart.
    eventually("all children to run", || env.snapshot().is_some_and(|tree| tree.runs()));
    let before = env.node("queue/fetcher_watcher");
    let mut events = EventReader::unix(&env.admin_socket(), "", &[]).expect("a stream");
    let (code, out, err) = env.cli(&["restart", "queue/fetcher_watcher", "--reason", "x"]);
    assert_eq!(
        (code, out.as_str()),
        (0, "orchestrator/queue/fetcher_watcher: running -> running\n"),
        "{err}"
    );
    let event = events.find(|event| event.event == "commanded");
    assert_eq!(event.data["path"], "orchestrator/queue/fetcher_watcher");
    assert_eq!((&event.data["verb"], &event.data["reason"]), (&"restart".into(), &"x".into()));
    let after = env.node("queue/fetcher_watcher");
    assert_eq!(after["incarnation"].as_u64(), before["incarnation"].as_u64().map(|n| n + 1));
    let line = lines(&audit).pop().expect("a line");
    let shown = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        ["path", "verb", "reason", "role", "outcome", "before", "after"].map(shown),
        ["orchestrator/queue/fetcher_watcher", "restart", "x", "operator", "ok", "running", "running"]
    );
    assert!(shown("who").starts_with("uid ") && shown("who").contains("pid "), "{line}");
    assert_eq!(fs::metadata(&audit).expect("the log").permissions().mode() & 0o777, 0o600);
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    for sample in [
        r#"orchestrator_child_restarts_total{path="orchestrator/queue/fetcher_watcher",kind="failed"} 0"#,
        r#"orchestrator_child_restarts_total{path="orchestrator/queue/fetcher_watcher",kind="planned"} 1"#,
        r#"orchestrator_admin_audit_lines_total{path="orchestrator/admin"} 1"#,
        r#"orchestrator_admin_event_clients{path="orchestrator/admin"} 1"#,
    ] {
        assert!(metrics.lines().any(|line| line == sample), "no {sample} in {metrics}");
    }
    let (code, out, err) = env.cli(&["tail", "queue/fetcher_watcher", "--no-follow", "-n", "100", "--json"]);
    assert_eq!(code, 0, "{err}");
    let events: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(events.iter().any(|event| event["event"] == "commanded" && event["reason"] == "x"), "{out}");
    assert!(events.iter().all(|event| event["path"] == "orchestrator/queue/fetcher_watcher"), "{out}");
    let (_, words, _) = env.cli(&["tail", "--no-follow", "-n", "100", "--kind", "commanded"]);
    assert!(words.lines().count() == 1 && words.contains("reason=\"x\"") && words.contains('Z'), "{words}");
}

#[test]
fn commands_that_only_read_are_not_audited() {
    let (env, audit) = env_with_tokens();
    let _instance = env.start();
    // Workers are served before the database is open, and questions are refused until it is.
    eventually("the database to be open", || env.cli(&["queue", "stats"]).0 == 0);
    for command in [&["queue", "stats"][..], &["queue", "ls"], &["queue", "in-flight"], &["queue", "pause"]] {
        let (code, _, err) = env.cli(command);
        assert_eq!(code, 0, "{command:?}: {err}");
    }
    let verbs: Vec<_> = lines(&audit).iter().map(|line| line["verb"].clone()).collect();
    assert_eq!(verbs, ["pause"]);
    let (_, events, _) = env.cli(&["tail", "--no-follow", "-n", "100", "--kind", "commanded"]);
    assert!(events.lines().count() == 1 && events.contains("queue pause"), "{events}");
}

#[test]
fn viewer_commands_are_refused_and_operator_commands_run() {
    let (env, audit) = env_with_tokens();
    let _instance = env.start();
    let url = format!("http://{}", env.admin_tcp());
    let file = |name: &str, token: &str| {
        let path = env.path().join(name);
        write_private(&path, &format!("{token}\n"));
        path.display().to_string()
    };
    let (viewer, operator) = (file("viewer", VIEWER), file("operator", OPERATOR));
    let cli = |arguments: &[&str]| env.cli(&[arguments, &["--url", &url]].concat());
    let (code, _, err) = cli(&["tree"]);
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("--token-file"), "{err}");
    assert_eq!(cli(&["tree", "--token-file", &viewer]).0, 0);
    let incarnation = || env.node("queue/fetcher_watcher")["incarnation"].as_u64();
    for command in [&["restart", "queue/fetcher_watcher"][..], &["queue", "pause"], &["queue", "bump", "a"]] {
        let (code, _, err) = cli(&[command, &["--token-file", &viewer]].concat());
        assert_eq!(code, 5, "{command:?}: {err}");
        assert!(err.contains("operator"), "{err}");
    }
    assert_eq!(incarnation(), Some(1));
    let (code, _, err) = cli(&["restart", "queue/fetcher_watcher", "--token-file", &operator]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(incarnation(), Some(2));
    let who: Vec<String> =
        lines(&audit).iter().map(|line| format!("{} {}", line["who"], line["verb"])).collect();
    assert_eq!(who, ["\"eve\" \"restart\"", "\"eve\" \"pause\"", "\"eve\" \"bump\"", "\"bob\" \"restart\""]);
    assert!(!env.log().contains(OPERATOR) && !env.log().contains(VIEWER));
    assert!(!fs::read_to_string(&audit).expect("the log").contains(OPERATOR));
}

/// Checks that `run` and `check` refuse the configuration. Returns the error output of `check`.
fn refused(env: &TestEnv) -> String {
    let command = env.command();
    assert_eq!(Instance::spawn(env.command()).wait().code(), Some(78), "{}", env.log());
    let arguments: Vec<_> =
        command.get_args().skip(1).map(|one| one.to_string_lossy().into_owned()).collect();
    let mut check = vec!["check"];
    check.extend(arguments.iter().map(String::as_str));
    let (code, _, err) = env.cli(&check);
    assert_eq!(code, 78, "{err}");
    assert!(!env.log().contains("panicked"), "{}", env.log());
    err
}

#[test]
fn a_public_address_requires_tokens() {
    let open = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.listen=0.0.0.0:0");
    let text = refused(&open);
    assert!(text.contains("admin.tokens_file"), "{text}");
    let tokens = open.path().join("tokens");
    write_private(&tokens, &format!("operator bob {OPERATOR}\n"));
    let open = open.set(&format!("admin.tokens_file={}", tokens.display()));
    let _instance = open.start();
    let port = open.admin_tcp().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[], "").status, 401);
    let bearer = format!("Authorization: Bearer {OPERATOR}");
    assert_eq!(http_tcp(address, "GET", "/v1/tree", &[&bearer], "").status, 200);
}

#[test]
fn an_invalid_tokens_file_is_refused_naming_lines_without_tokens() {
    let (env, _) = env_with_tokens();
    let tokens = env.path().join("tokens");
    write_private(
        &tokens,
        &format!("viewer eve short\n{OPERATOR}\nviewer eve {VIEWER}\nadmin bob {OPERATOR}\n"),
    );
    let text = refused(&env);
    for line in [1, 2, 4] {
        assert!(text.contains(&format!("tokens:{line}: ")), "{text}");
    }
    assert!(!text.contains(OPERATOR) && !env.log().contains(OPERATOR), "{text}");
    write_private(&tokens, &format!("viewer eve {VIEWER}\n"));
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).expect("chmod a file of ours");
    let text = refused(&env);
    assert!(text.contains("chmod 600"), "{text}");
}

/// Refusals of a viewer are limited, and commands have disk space of their own.
#[test]
fn operators_are_not_locked_out_by_refusals_or_by_a_full_disk() {
    SmallDisk::with(1, "access::operators_are_not_locked_out_by_refusals_or_by_a_full_disk", |disk| {
        let audit = disk.path().join("audit.jsonl");
        let env = env_with_tokens().0.set(&format!("admin.audit_file={}", audit.display()));
        let _instance = env.start();
        let (address, bearer) = (env.admin_tcp(), format!("Authorization: Bearer {VIEWER}"));
        let refuse = |times| {
            for _ in 0..times {
                let path = "/v1/actors/queue/fetcher_watcher/stop";
                assert_eq!(http_tcp(address, "POST", path, &[&bearer], "{}").status, 403);
            }
        };
        refuse(30);
        assert_eq!(lines(&audit).len(), 10, "the others are counted");
        disk.fill();
        refuse(2);
        let reason = format!(r#"{{"reason":"{}"}}"#, "x".repeat(500));
        let command = |verb: &str| {
            let path = format!("/v1/actors/queue/inotify/{verb}");
            http(&env.admin_socket(), "POST", &path, &[], &reason)
        };
        // Until the reserve is used up.
        let mut verbs = ["pause", "resume"].into_iter().cycle();
        let mut executed = 0;
        let (refused, verb) = loop {
            let verb = verbs.next().expect("it is endless");
            let reply = command(verb);
            if reply.status != 200 {
                break (reply, verb);
            }
            executed += 1;
        };
        eprintln!("{executed} commands on a full disk");
        assert!(executed > 100, "{executed} commands were executed");
        assert_eq!(refused.status, 503, "{}", refused.body);
        assert!(refused.body.contains("was not executed"), "{}", refused.body);
        let state = if verb == "pause" { "running" } else { "paused" };
        assert_eq!(env.node("queue/inotify")["state"], state);
        assert_eq!(lines(&audit).len(), 10 + executed, "the log has a partial line");
        let text = format!("no space left for the audit log {}: commands are refused", audit.display());
        let cause = env.first_cause("admin", &text);
        assert!(cause.evidence[0].contains(" bytes are free on the file system of "), "{cause:?}");
        disk.free();
        assert_eq!(command(verb).status, 200);
        assert!(env.causes("admin").is_empty(), "{}", env.why("admin"));
        assert_eq!(lines(&audit).len(), 11 + executed);
    });
}

/// A port for probes on other hosts: everybody may use it, and it shows no more than a probe needs.
#[test]
fn probes_have_a_port_of_their_own_without_tokens_and_reasons() {
    let (env, _) = env_with_tokens();
    let env = env.set("admin.probe_listen=127.0.0.1:0");
    let instance = env.start();
    let probe = env.admin_probe();
    let get = |path: &str| http_tcp(probe, "GET", path, &["Host: pod.example:9100"], "");
    eventually("the instance to be ready", || get("/readyz").status == 200);
    assert_eq!((get("/livez").status, get("/readyz?verbose").body.as_str()), (200, "ok\n"));
    assert!(get("/metrics").body.contains("process_start_time_seconds"));
    for path in [
        "/",
        "/v1/tree",
        "/v1/config",
        "/v1/consoles/queue/queue_console/status",
        "/openapi.json",
        "/ui/page.js",
    ] {
        let reply = get(path);
        assert!(reply.status == 404 && reply.body.contains("serves only /livez"), "{path}: {}", reply.body);
    }
    assert_eq!(http_tcp(probe, "POST", "/livez", &[], "").status, 405);
    assert_eq!(env.cli(&["stop", "queue/fetcher_watcher", "--reason", "S3CR3T"]).0, 0);
    eventually("it to be unready", || get("/readyz").status == 503);
    assert_eq!(get("/readyz?verbose").body, "failed: orchestrator/queue/fetcher_watcher\n");
    // The other port still wants a token.
    assert_eq!(http_tcp(env.admin_tcp(), "GET", "/metrics", &[], "").status, 401);
    assert!(instance.terminate().success());
    let (code, _, said) = env.cli(&["check", "--set", "admin.probe_listen=9100"]);
    assert!(code == 78 && said.contains("admin.probe_listen"), "{said}");
}

/// Whatever key names it, a file with a secret that others can read is reported once.
#[test]
fn a_secret_file_that_others_can_read_is_a_warning() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("amqp.url");
    fs::write(&file, "amqp://guest:guest@127.0.0.1:1/%2f").expect("write");
    for (mode, is_exposed) in [(0o644, true), (0o440, false)] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("chmod");
        let env = env()
            .set("provenance.transport=amqp")
            .set(&format!("provenance.amqp.url_file={}", file.display()));
        let instance = env.start();
        let warning = format!("the file {} with a secret has mode {mode:o}", file.display());
        assert_eq!(env.log().matches(&warning).count(), usize::from(is_exposed), "{}", env.log());
        assert!(instance.terminate().success());
    }
}
