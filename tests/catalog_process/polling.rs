//! Polling without interruption, and rejected rules beside valid ones.

use std::{
    fs,
    time::{Duration, Instant},
};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Faktory, Rabbit, eventually, free_port};
use rustix::process::Signal;
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

fn named(name: &str, from: &str, to: &str) -> String {
    FULL_RULE.replace("\"work\"", &format!("{name:?}")).replace(from, to)
}

/// Reads so far.
fn polls(server: &Ermrest) -> usize {
    server.requests().iter().filter(|request| request["method"] == "GET").count()
}

/// The original sleeps 5, 25, 125 .. s between two connection attempts to the broker and does not
/// poll meanwhile (CONTRACT CX10).
#[test]
fn polling_every_250_ms_continues_without_the_broker() {
    let server = Ermrest::start(&[]);
    let nobody = format!("amqp://guest:guest@127.0.0.1:{}/%2f", free_port());
    let site = CatalogEnv::new(BINARY, &server).notices(&nobody).key("poll_secs = 0.25").rule(FULL_RULE);
    let instance = site.start();
    eventually("polls", || polls(&server) > 8);
    let (before, begun) = (polls(&server), Instant::now());
    eventually("forty more polls", || polls(&server) >= before + 40);
    // Ten seconds, and a margin for a busy machine.
    assert!(begun.elapsed() > Duration::from_secs(9), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(
        server.response_count("GET", 200),
        2,
        "candidates, and what others hold: all else was as it had been"
    );
    let status = site.status();
    assert_eq!(status["notices"]["up"], false);
    let (_, tree, _) = site.base().cli(&["tree", "catalog"]);
    assert!(tree.contains("notices") && tree.contains("rabbitmq"), "{tree}");
    assert!(instance.terminate().success());
}

#[test]
fn the_certificate_of_the_broker_is_verified_with_ca_file() {
    let (server, broker) = (Ermrest::start(&[]), Rabbit::shared());
    broker.create_vhost("secured");
    let site = CatalogEnv::new(BINARY, &server).notices(&broker.tls_url_of("secured")).rule(FULL_RULE);
    let instance = site.start();
    let refused = || site.base().cli(&["tree", "catalog", "--json"]).1.contains("certificate");
    eventually("an authority that is not known to be told", refused);
    assert!(instance.terminate().success());
    let site = site.key(&format!("ca_file = {:?}", Faktory::ca_file()));
    let instance = site.start();
    eventually("notices to come", || site.status()["notices"]["up"] == true);
    assert!(instance.terminate().success());
}

#[test]
fn an_unknown_broker_host_does_not_stop_the_rules() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server)
        .notices("amqp://guest:guest@no-such-host.invalid:5672/%2f")
        .rule(FULL_RULE);
    let _instance = site.start();
    server.insert_foo(3, "actionable");
    eventually("rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    let (_, tree, _) = site.base().cli(&["tree", "catalog", "--json"]);
    assert!(tree.contains("no-such-host.invalid"), "{tree}");
}

#[test]
fn an_unknown_catalog_host_is_retried() {
    let site = CatalogEnv::at(BINARY, "http://no-such-host.invalid/ermrest/catalog/1").rule(FULL_RULE);
    let instance = site.start();
    eventually("it to be missed", || site.rule_status("work")["phase"] == "waiting");
    assert!(
        site.rule_status("work")["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("no-such-host.invalid"))
    );
    assert!(instance.terminate().success());
}

#[test]
fn rejected_rules_are_parked_and_the_others_continue() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server)
        .rule(FULL_RULE)
        .rule(&named("column", "state=actionable", "nothing=1&state=actionable"))
        .rule(&named("table", "\"Foo\"", "\"Nowhere\""))
        .rule(&named("syntax", "state=actionable", "state=="));
    let _instance = site.start();
    server.insert_foo(5, "actionable");
    for (rule, code) in [("column", "409"), ("table", "409"), ("syntax", "400")] {
        eventually("it to be parked", || site.rule_status(rule)["phase"] == "parked");
        let reason = site.rule_status(rule)["reason"].clone();
        assert!(reason.as_str().is_some_and(|reason| reason.contains(code)), "{rule}: {reason}");
    }
    eventually("rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    let (_, page, _) = site.base().cli(&["catalog", "status"]);
    assert!(page.contains("table: parked: ") && page.contains("Nowhere"), "{page}");
    let (_, why, _) = site.base().cli(&["why", "catalog"]);
    assert!(why.contains("rules/table: the server refuses the rule: ") && why.contains("Nowhere"), "{why}");
    assert!(why.contains("do: orchestrator catalog check table; "), "{why}");
    // A parked rule sends no further requests.
    let refused = server.response_count("GET", 409) + server.response_count("GET", 400);
    let before = polls(&server);
    eventually("polls of the other", || polls(&server) >= before + 10);
    assert_eq!(server.response_count("GET", 409) + server.response_count("GET", 400), refused);
}

#[test]
fn a_missing_catalog_parks_its_rules_and_run_once_retries() {
    let server = Ermrest::start(&[]);
    let url = server.url().replace("/catalog/1", "/catalog/77");
    let site = CatalogEnv::at(BINARY, &url).rule(FULL_RULE);
    let mut instance = site.start();
    eventually("it to be parked", || site.rule_status("work")["phase"] == "parked");
    let (code, out, _) = site.base().cli(&["catalog", "run-once", "work"]);
    assert_eq!(code, 0);
    assert!(out.contains("work is parked") && out.contains("404"), "{out}");
    assert!(instance.ended().is_none());
}

#[test]
fn renewed_credentials_are_read_and_used() {
    let server = Ermrest::start(&["--token", "token-first"]);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("token");
    fs::write(&file, "token-first").expect("write");
    let site = CatalogEnv::new(BINARY, &server).key(&format!("token_file = {file:?}")).rule(FULL_RULE);
    let _instance = site.start();
    server.insert("Foo", &json!([{ "id": 1, "state": "actionable" }]), "token-first");
    let complete = |rows: usize| {
        eventually("rows to be complete", || {
            server.rows("Foo").iter().filter(|row| row["state"] == "complete").count() == rows
        });
    };
    complete(1);
    // The token was renewed: one retry with the new content of the file.
    fs::write(&file, "token-second").expect("write");
    server.set_faults(&json!({ "token": "token-second" }));
    server.insert("Foo", &json!([{ "id": 2, "state": "actionable" }]), "token-second");
    complete(2);
    server.set_faults(&json!({ "token": "token-third" }));
    eventually("it to wait", || site.rule_status("work")["phase"] == "waiting");
    let reason = site.rule_status("work")["reason"].clone();
    assert!(
        reason.as_str().is_some_and(|reason| reason.contains("401") && !reason.contains("token-second")),
        "{reason}"
    );
    fs::write(&file, "token-third").expect("write");
    server.insert("Foo", &json!([{ "id": 3, "state": "actionable" }]), "token-third");
    let (code, _, error) = site.base().cli(&["catalog", "run-once", "work"]);
    assert_eq!(code, 0, "{error}");
    complete(3);
    assert!(!site.base().log().contains("token-second"), "no secret in the log");
}

#[test]
fn rules_are_replaced_while_the_process_runs() {
    let server = Ermrest::start(&[]);
    let mut site = CatalogEnv::new(BINARY, &server)
        .rule(FULL_RULE)
        .rule("handler = { kind = \"command\", argv = [\"/bin/sh\", \"-c\", 'cat >/dev/null; sleep 1'] }\n");
    let instance = site.start();
    server.insert_foo(4, "actionable");
    eventually("rows to be worked on", || site.rule_status("work")["working"] == 4);
    // One rule is removed and another one added: running handlers are finished.
    site.clear_rules();
    site.add_rule(&named("other", "state=actionable", "state=other"));
    site.write();
    instance.signal(Signal::HUP);
    eventually("the other rule", || site.rule_status("other").is_object());
    assert!(site.rule_status("work").is_null() || site.rule_status("work")["phase"] != "idle");
    eventually("rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    server.insert("Foo", &json!([{ "id": 10, "state": "other" }, { "id": 11, "state": "actionable" }]), "");
    let state =
        |id: u32| server.rows("Foo").iter().find(|row| row["id"] == id).expect("a row")["state"].clone();
    eventually("the other's row to be complete", || state(10) == "complete");
    assert_eq!(state(11), "actionable", "nobody's any more");
    assert!(site.base().log().contains("catalog.lab.rule"), "{}", site.base().log());
    // An invalid configuration changes nothing.
    site.add_rule("claim.set.state = \"$nonsense\"\n");
    site.write();
    instance.signal(Signal::HUP);
    eventually("it to be refused", || site.base().log().contains("cannot reload the configuration"));
    assert!(site.rule_status("other").is_object());
    assert!(instance.terminate().success());
}

#[test]
fn a_pause_claims_nothing_and_a_check_writes_nothing() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE);
    let _instance = site.start();
    for (wrong, words) in [
        (&["pause", "nonsense"][..], "there is no rule nonsense; there is work"),
        (&["pause", "--catalog", "moon"], "catalog has no `moon`; it has lab"),
        (&["status", "moon"], "catalog has no `moon`; it has lab"),
    ] {
        let (code, _, error) = site.base().cli(&[&["catalog"], wrong].concat());
        assert!(code != 0 && error.contains(words), "{wrong:?}: {error}");
    }
    let (code, out, error) = site.base().cli(&["catalog", "pause", "work", "--reason", "new column"]);
    assert_eq!((code, out.as_str()), (0, "lab: paused: work\n"), "{error}");
    let (_, why, _) = site.base().cli(&["why", "catalog"]);
    assert!(why.contains("pause by uid ") && why.contains(": new column"), "{why}");
    let (_, tree, _) = site.base().cli(&["tree", "catalog"]);
    assert!(tree.lines().skip(1).all(|line| !line.starts_with("orchestrator/catalog  running")), "{tree}");
    let (code, health, _) = site.base().cli(&["health"]);
    assert_eq!(code, 0, "{health}");
    assert!(
        health.contains("\npaused: orchestrator/catalog/") && health.contains("paused the rule"),
        "{health}"
    );
    server.insert_foo(2, "actionable");
    let config = site.write().display().to_string();
    let (code, page, error) = site.base().cli(&["catalog", "check", "--config", &config]);
    assert_eq!(code, 0, "{error}");
    let url = server.url();
    let query = format!("GET {url}/entity/Foo/state=actionable@sort(id)?limit=100");
    assert!(page.contains(&query) && page.contains("2 rows"), "{page}");
    let (code, _, refused) = site.base().cli(&["catalog", "run-once", "work"]);
    assert!(code != 0 && refused.contains("paused"), "{refused}");
    assert!(server.rows("Foo").iter().all(|row| row["state"] == "actionable"));
    assert_eq!(server.response_count("PUT", 200), 0);
    let (code, _, error) = site.base().cli(&["catalog", "resume"]);
    assert_eq!(code, 0, "{error}");
    eventually("rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
}

/// A mistake that the rule alone shows is refused before any request: by `check`, by `catalog
/// check` and at startup.
#[test]
fn a_rule_that_feeds_itself_is_refused_before_any_request() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server).rule(&named(
        "circle",
        "state = \"complete\"",
        "state = \"actionable\"",
    ));
    let config = site.write().display().to_string();
    for command in [&["catalog", "check"][..], &["check"], &["run"]] {
        let (code, _, error) = site.base().cli(&[command, &["--config", &config]].concat());
        assert_eq!(code, 78, "{command:?}: {error}");
        let said = "catalog.lab.rule.circle.done";
        assert!(
            error.contains(said) && error.contains("would be claimed without end"),
            "{command:?}: {error}"
        );
    }
    assert_eq!(server.requests(), Vec::<serde_json::Value>::new());
}

/// Two rules that create candidates for each other, which neither rule alone shows.
#[test]
fn recurring_rows_do_not_keep_the_server_busy() {
    let server = Ermrest::start(&[]);
    let circle = |name: &str, from: &str, to: &str| {
        format!(
            "[[catalog.rule]]\nname = {name:?}\ntable = \"Foo\"\nfilter = \"state={from}\"\nsort = \"id\"\n\
             claim.set = {{ state = \"claimed\", claimed_by = \"$token\" }}\ndone.state = {to:?}\n"
        )
    };
    let site = CatalogEnv::new(BINARY, &server)
        .rule(&circle("there", "ping", "pong"))
        .rule(&circle("back", "pong", "ping"))
        .rule(FULL_RULE);
    let _instance = site.start();
    server.insert_foo(20, "ping");
    // Each row has recurred some times and is deferred longer each time.
    eventually("rows to be left alone", || {
        ["there", "back"].iter().any(|rule| site.rule_status(rule)["recurred"].as_u64() >= Some(40))
    });
    let (before, begun) = (server.requests().len(), Instant::now());
    // The other rule continues.
    server.insert("Foo", &json!([{ "id": 1_000, "state": "actionable" }]), "");
    eventually("the other rule to go on", || {
        server.rows("Foo").iter().any(|row| row["id"] == 1_000 && row["state"] == "complete")
    });
    let polls_before = site.rule_status("work")["polls"].as_u64().expect("a number");
    eventually("polls of the other rule", || {
        site.rule_status("work")["polls"].as_u64() >= Some(polls_before + 20)
    });
    let (requests, secs) = (server.requests().len() - before, begun.elapsed().as_secs_f64());
    // About 25 of these are polls; without deferral there were 3,000.
    assert!((requests as f64) < 200.0 * secs, "{requests} requests in {secs} s");
    let log = site.base().log();
    let warnings = log.lines().filter(|line| line.contains("is a candidate again at once"));
    assert!(warnings.clone().count() <= 4 && warnings.clone().any(|line| line.contains("Foo")), "{log}");
}

/// The environment of the process may hold secrets: a handler gets harmless variables, and those
/// that its rule passes on or sets.
#[test]
fn a_handler_gets_only_its_own_environment() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let file = site.base().path().join("environment");
    let script = format!("env > {0}.part; mv {0}.part {0}", file.display());
    let site = site.rule(FULL_RULE).rule(&format!(
        "handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", {script:?}], env = {{ MODE = \"S3CR3T-set\", LANG = \"C\" }}, \
         env_pass = [\"KRB5CCNAME\", \"MISSING\"] }}\n"
    ));
    let _instance = site.start_with(&[
        ("ORCHESTRATOR_TEST_PASSWORD", "S3CR3T"),
        ("AWS_SECRET_ACCESS_KEY", "S3CR3T"),
        ("http_proxy", "http://u:S3CR3T@proxy/"),
        ("no_proxy", "localhost"),
        ("PYTHONPATH", "/S3CR3T"),
        ("WATCHDOG_USEC_OLD", "S3CR3T"),
        ("KRB5CCNAME", "/tmp/cc"),
        ("LANG", "de_DE.UTF-8"),
        ("LC_TIME", "C.UTF-8"),
        ("TZ", "Europe/Berlin"),
    ]);
    server.insert_foo(1, "actionable");
    eventually("the row to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    let environment = fs::read_to_string(&file).expect("the handler has run");
    for line in ["KRB5CCNAME=/tmp/cc", "LANG=C", "LC_TIME=C.UTF-8", "MODE=S3CR3T-set", "TZ=Europe/Berlin"] {
        assert!(environment.lines().any(|is| is == line), "{line}: {environment}");
    }
    let wanted = [
        "HOME",
        "KRB5CCNAME",
        "LANG",
        "LANGUAGE",
        "LC_TIME",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "MODE",
        "ORCHESTRATOR_ATTEMPT",
        "ORCHESTRATOR_RULE",
        "ORCHESTRATOR_TOKEN",
        "PATH",
        "SHELL",
        "TMPDIR",
        "TZ",
        "TZDIR",
        "USER",
        // Set by the shell itself.
        "OLDPWD",
        "PWD",
        "SHLVL",
        "_",
    ];
    for line in environment.lines() {
        let name = line.split('=').next().unwrap_or_default();
        assert!(wanted.contains(&name), "{line}");
    }
    // Values of the rule are shown nowhere.
    let (_, shown, _) = site.base().cli(&["config", "print", "--config", "catalog.toml"]);
    assert!(shown.contains("MODE") && !shown.contains("S3CR3T"), "{shown}");
    let (_, tree, _) = site.base().cli(&["tree", "--json"]);
    assert!(!tree.contains("S3CR3T") && !site.base().log().contains("S3CR3T"));
}
