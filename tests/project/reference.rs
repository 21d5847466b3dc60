//! The operator pages match the program: metrics, events, exit codes, alerts.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
};

use orchestrator_harness::{CatalogEnv, Faktory, IngesterEnv, Instance, TestEnv, ZmtpPeer, eventually, http};
use serde_json::json;

const HOOK: &str = "[[hook]]\nname = \"h\"\non = \"queue.failed\"\nargv = [\"/bin/true\"]\n";

fn page(name: &str) -> String {
    let path = format!("{}/deploy/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// First cells of the table under a heading, without backquotes.
fn listed(text: &str, heading: &str) -> BTreeSet<String> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

/// Headings of the third level under one of the second.
fn sections(text: &str, heading: &str) -> BTreeSet<String> {
    let section = text.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    section.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned).collect()
}

/// Words that begin with `prefix`.
fn words(text: &str, prefix: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_word(c)).filter(|word| word.starts_with(prefix)).map(str::to_owned).collect()
}

#[test]
fn the_metrics_table_lists_exactly_the_metrics() {
    // Each transport has its own children.
    let sites = ["amqp", "embedded"].map(|transport| {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.sqlite.path=provenance.db")
            .set("provenance.dead_letters=dead-letters.db")
            .set("provenance.amqp.url=amqp://127.0.0.1:1")
            .set(&format!("provenance.transport={transport}"))
            .set("queue.expect=[{ fetcher = \"github\", every = \"8h\" }]");
        env.write("f.1.txt", "alpha 0 1\n");
        let instance = env.start();
        (env, instance)
    });
    // Metrics of a worker; the detector does not exist.
    let ingester = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), "tcp://127.0.0.1:1", "");
    let _ingesting = ingester.start();
    // The interpreter does not exist.
    let base = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let class =
        IngesterEnv::with_source(base, "module:Class", "tcp://127.0.0.1:1", "python = \"/nowhere/python\"");
    let _class = class.start();
    // A queue of another program; the producer's database does not exist.
    let faktory = Faktory::start(&[]);
    faktory.push(&json!({ "jid": "job-number-1", "jobtype": "t", "args": [], "queue": "mail" }));
    let producer = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set(&format!("producer.faktory.url={}", faktory.url()))
        .set("producer.on_complete.argv=[\"/bin/true\"]")
        .set("producer.mongodb.uri=mongodb://127.0.0.1:1");
    let _producing = producer.start();
    // The server of its queue does not exist.
    let hooks = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("queue.store=postgres")
        .set("queue.postgres.dsn=postgresql://127.0.0.1:1/queue");
    fs::write(hooks.path().join("hooks.toml"), HOOK).expect("write the configuration");
    let mut command = hooks.command();
    command.args(["--config", "hooks.toml"]);
    let _hooks = Instance::spawn(command);
    // Catalog server and broker do not exist.
    let catalog = CatalogEnv::at(env!("CARGO_BIN_EXE_orchestrator"), "http://127.0.0.1:1/ermrest/catalog/1")
        .notices("amqp://127.0.0.1:1")
        .rule("[[catalog.rule]]\nname = \"foo\"\ntable = \"Foo\"\nclaim.set.state = \"claimed\"\n");
    let _polling = catalog.start();
    let _worker = ZmtpPeer::connect(ingester.port, "DEALER", "w1").expect("it listens");
    let table = listed(&page("REFERENCE.md"), "Metrics");
    let sockets: Vec<_> = sites
        .iter()
        .map(|(env, _)| env)
        .chain([&ingester.base, &class.base, &producer, &hooks, catalog.base()])
        .map(TestEnv::admin_socket)
        .collect();
    let metrics =
        || -> String { sockets.iter().map(|socket| http(socket, "GET", "/metrics", &[], "").body).collect() };
    let names = |types: &str| -> BTreeSet<String> {
        types
            .lines()
            .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
            .collect()
    };
    // Children declare their metrics soon after they are started; without a broker there is no readiness to
    // wait for.
    eventually("as many metrics as the table has", || names(&metrics()).len() >= table.len());
    for socket in &sockets {
        let text = http(socket, "GET", "/metrics", &[], "").body;
        let mut lint = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("promtool is installed");
        lint.stdin.take().expect("piped").write_all(text.as_bytes()).expect("promtool reads");
        let said = lint.wait_with_output().expect("promtool ends");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    }
    let types = metrics();
    let found = names(&types);
    assert_eq!(found, table);
    let mut other_meaning = Vec::new();
    for row in page("REFERENCE.md")
        .lines()
        .filter(|line| ["| `orchestrator_", "| `process_"].iter().any(|name| line.starts_with(name)))
    {
        let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        assert!(types.contains(&format!("# TYPE {} {}\n", cells[1], cells[2])), "{row}");
        let help = types.lines().find_map(|line| line.strip_prefix(&format!("# HELP {} ", cells[1])));
        let meaning = row.split('|').nth(4).map(str::trim);
        if meaning != help {
            other_meaning.push(format!("{}: {}", cells[1], help.unwrap_or_default()));
        }
    }
    assert!(other_meaning.is_empty(), "not the HELP text:\n{}", other_meaning.join("\n"));
}

#[test]
fn the_events_table_lists_exactly_the_events() {
    let source = include_str!("../../actors/observe/src/event.rs");
    let body = source
        .split("pub enum EventKind {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .expect("the kinds");
    // Variants have one level of indentation.
    let variants = body
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase));
    let snake = |name: &str| {
        let mut text = String::new();
        for c in name.chars().take_while(char::is_ascii_alphanumeric) {
            if c.is_uppercase() && !text.is_empty() {
                text.push('_');
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    };
    let kinds: BTreeSet<String> = variants.map(snake).collect();
    assert!(kinds.contains("restart_scheduled"), "{kinds:?}");
    assert_eq!(kinds, listed(&page("REFERENCE.md"), "Events"));
}

#[test]
fn every_exit_code_has_a_runbook_section() {
    let (code, help, _) = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).cli(&["--help"]);
    assert_eq!(code, 0);
    let table = help.split("Exit codes:").nth(1).expect("the table of exit codes");
    let codes: BTreeSet<String> = table
        .lines()
        .filter_map(|line| line.split_whitespace().next()?.parse::<u8>().ok())
        .map(|code| format!("Exit {code}"))
        .collect();
    assert!(codes.len() >= 10, "{codes:?}");
    assert_eq!(codes, sections(&page("RUNBOOK.md"), "Exit codes"));
}

#[test]
fn every_alert_has_a_runbook_section_and_known_metrics() {
    let alerts = page("alerts.yml");
    let names: BTreeSet<String> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect();
    assert!(names.len() >= 5, "{names:?}");
    assert_eq!(names, sections(&page("RUNBOOK.md"), "Alerts"));
    // A heading's anchor has small letters; tests/project/alerts.rs compares it with the name of its alert.
    for name in &names {
        assert!(alerts.contains(&format!("/deploy/RUNBOOK.md#{}\"\n", name.to_lowercase())), "{name}");
    }
    let table = listed(&page("REFERENCE.md"), "Metrics");
    let dashboard = page("grafana-dashboard.json");
    serde_json::from_str::<serde_json::Value>(&dashboard).expect("the dashboard is JSON");
    let prefixes = ["orchestrator_", "process_"];
    for word in
        prefixes.iter().flat_map(|prefix| [words(&alerts, prefix), words(&dashboard, prefix)]).flatten()
    {
        let name = word.strip_suffix("_bucket").unwrap_or(&word);
        assert!(table.contains(name), "{word} is no metric");
    }
}
