//! The command line: JSON, exit codes, help, man pages, colours and errors.

use std::{fs, process::Command};

use orchestrator_harness::{PtyProgram, TestEnv, eventually};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

fn env() -> TestEnv {
    TestEnv::new(BINARY)
}

fn json_of(env: &TestEnv, code: i32, arguments: &[&str]) -> Value {
    let (got, out, err) = env.cli(arguments);
    assert_eq!((got, err.as_str()), (code, ""), "{arguments:?}: {out}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for arguments in [
        &["config", "print"][..],
        &["config", "print", "--json"],
        &["config", "schema"],
        &["config", "init", "--for", "deriva-agent"],
        &["check"],
        &["check", "--json"],
        &["completions", "bash"],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").expect("a device");
        let mut program = Command::new(BINARY);
        let output = program.args(arguments).env_clear().current_dir(env().path()).stdout(full).output();
        let output = output.expect("a process");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("No space left on device"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_path_that_no_socket_can_have_is_refused() {
    let env = env();
    let path = format!("{}/worker.sock", "d".repeat(100));
    for key in ["queue.socket", "admin.unix_socket"] {
        let (code, out, err) = env.cli(&["check", "--set", &format!("{key}={path}")]);
        assert_eq!(code, 78, "{key}: {out}");
        assert!(err.contains(key) && err.contains("at most 107 bytes"), "{err}");
    }
}

#[test]
fn a_path_that_is_no_file_for_sqlite_is_refused() {
    let env = env();
    for path in [":memory:", ":x", "file:x?mode=memory", "file:x", "a/", ".", "..", "/", "/tmp"] {
        for key in ["queue.database", "provenance.sqlite.path"] {
            let (code, out, err) = env.cli(&["check", "--set", &format!("{key}={path}")]);
            assert_eq!(code, 78, "{key}: {out}");
            assert!(err.contains(key) && err.contains("write "), "{err}");
        }
    }
    for path in ["./:memory:", "a:b", "files/x", ".x"] {
        let (code, _, err) = env.cli(&["check", "--set", &format!("queue.database={path}")]);
        assert_eq!(code, 0, "{path}: {err}");
    }
}

#[test]
fn check_and_config_print_have_json() {
    let env = env();
    let file = env.path().join("x.toml");
    fs::write(&file, "[queue]\nhold_secs = 7\n[[queue.limit]]\nmatch = \"a*\"\nin_flight = 2\n")
        .expect("write");
    let config = file.display().to_string();
    let checked = json_of(&env, 0, &["check", "--json", "--config", &config]);
    assert_eq!(checked["valid"], true);
    let tree = checked["tree"].as_array().expect("lines");
    assert!(
        tree.iter().any(|line| line.as_str().is_some_and(|line| line.contains("queue_store"))),
        "{tree:?}"
    );

    let printed =
        json_of(&env, 0, &["config", "print", "--json", "--config", &config, "--set", "queue.attempts=3"]);
    assert_eq!(printed["config"]["queue"]["hold_secs"], 7);
    let sources = &printed["sources"];
    assert_eq!(sources["queue.hold_secs"], format!("{config}:2"));
    assert_eq!(sources["queue.limit[0].in_flight"], format!("{config}:5"));
    assert_eq!(sources["queue.attempts"], "--set queue.attempts=3");
    assert_eq!(sources["queue.socket"], "default");

    fs::write(&file, "[queue]\nhold_secs = \"x\"\nhold = 1\n").expect("write");
    let refused = json_of(&env, 78, &["check", "--json", "--config", &config]);
    assert_eq!(refused["valid"], false);
    let errors = refused["errors"].as_array().expect("errors");
    let lines: Vec<_> = errors.iter().map(|error| (&error["position"], &error["key"])).collect();
    assert_eq!(
        lines,
        [
            (&json!(format!("{config}:2")), &json!("queue.hold_secs")),
            (&json!(format!("{config}:3")), &json!("queue.hold"))
        ]
    );
    let only = json_of(&env, 78, &["check", "--json", "--only", "moon"]);
    assert_eq!(only["errors"][0]["position"], "--only moon");
}

#[test]
fn graph_has_json_and_why_an_exit_code() {
    let env = env();
    let _instance = env.start();
    eventually("the database to be open", || env.link("queue/queue_store").state == "up");
    let graph = json_of(&env, 0, &["graph", "queue", "--json"]);
    let nodes = graph["nodes"].as_array().expect("nodes");
    let store =
        nodes.iter().find(|node| node["path"] == "orchestrator/queue/queue_store").expect("the store");
    assert_eq!((&store["state"], &store["link"]["state"]), (&json!("running"), &json!("up")));
    let edge =
        json!({ "kind": "child", "from": "orchestrator/queue", "to": "orchestrator/queue/queue_store" });
    assert!(graph["edges"].as_array().expect("edges").contains(&edge), "{graph}");

    assert_eq!(env.cli(&["why", "--exit-code", "admin"]).0, 0);
    assert_eq!(env.cli(&["queue", "pause"]).0, 0);
    let (code, out, _) = env.cli(&["why", "--exit-code", "queue"]);
    assert!(code == 1 && out.contains(" queue/queue_console: "), "{code}: {out}");
    assert_eq!(env.cli(&["why"]).0, 0, "without the option, an answer is a success");
}

#[test]
fn a_job_that_the_queue_does_not_know_is_not_found() {
    let env = env();
    let _instance = env.start();
    eventually("the database to be open", || env.cli(&["queue", "stats"]).0 == 0);
    for verb in ["show", "bump", "requeue"] {
        let (code, out, err) = env.cli(&["queue", verb, "moon"]);
        assert_eq!((code, out.as_str()), (4, ""), "{verb}: {err}");
        assert!(err.starts_with("orchestrator: moon: no "), "{verb}: {err}");
    }
}

#[test]
fn catalog_check_fails_without_a_server() {
    let env = env();
    fs::write(
        env.path().join("x.toml"),
        "[[catalog]]\nname = \"lab\"\nbase = \"http://127.0.0.1:9/ermrest/catalog/1\"\namqp = \"\"\n[[catalog.rule]]\n\
         name = \"work\"\ntable = \"T\"\nfilter = \"state=new\"\nclaim.set = { state = \"claimed\" }\n",
    )
    .expect("write");
    let (code, out, err) = env.cli(&["catalog", "check", "--config", "x.toml"]);
    assert!(code == 1 && out.contains("Connection refused"), "{code}: {out}{err}");
    assert!(err.contains("1 of 1 rules cannot be checked"), "{err}");
}

#[test]
fn errors_have_one_prefix_and_our_words() {
    let env = env();
    for (arguments, code, words) in [
        (&["queue", "peek", "-n", "x"][..], 2, "invalid value 'x' for '-n <N>': write a whole number"),
        (&["queue", "peek", "-n", "99999999999"], 2, "99999999999 is not in 0..=4294967295"),
        (&["tree", "--bogus"], 2, "unexpected argument '--bogus'"),
        (&["check", "--set", "queue.hold_secs=x"], 78, "queue.hold_secs"),
        (&["tree"], 3, "cannot reach"),
    ] {
        let (got, _, err) = env.cli(arguments);
        assert_eq!(got, code, "{arguments:?}: {err}");
        assert!(err.starts_with("orchestrator: ") && err.contains(words), "{arguments:?}: {err}");
        assert!(!err.contains("error: ") && !err.contains('\u{1b}'), "{arguments:?}: {err}");
    }
}

#[test]
fn every_command_has_a_man_page_and_help_of_at_most_100_columns() {
    let env = env();
    let (code, _, err) = env.cli(&["man", "man"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let pages = fs::read_dir(env.path().join("man")).expect("the pages");
    let names: Vec<_> =
        pages.map(|page| page.expect("a page").file_name().into_string().expect("text")).collect();
    for page in
        ["orchestrator.1", "orchestrator-queue-peek.1", "orchestrator-config-init.1", "orchestrator-why.1"]
    {
        assert!(names.iter().any(|name| name == page), "{page}: {names:?}");
    }
    for name in &names {
        let text = fs::read_to_string(env.path().join("man").join(name)).expect("text");
        assert!(text.contains(".TH ") && text.contains(".SH NAME"), "{name}: {text}");
    }
    for command in ["", "tree", "queue peek", "provenance import", "config init", "as"] {
        let output = Command::new(BINARY)
            .args(command.split_whitespace())
            .arg("--help")
            .env("COLUMNS", "300")
            .output()
            .expect("the program runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let widest = text.lines().map(|line| line.chars().count()).max().expect("lines");
        // The table of exit codes and examples have lines of their own.
        assert!((60..=105).contains(&widest), "{command}: {widest}: {text}");
    }
}

#[test]
fn a_terminal_has_colours_unless_no_color_is_set() {
    let env = env();
    let _instance = env.start();
    assert_eq!(env.cli(&["queue", "pause"]).0, 0);
    for (arguments, text) in [
        (&["why"][..], "hand-outs"),
        (&["tree", "queue/queue_store"], "queue_store"),
        (&["check", "--set", "queue.hold_secs=x"], "hold_secs"),
    ] {
        for plain in [false, true] {
            let mut command = Command::new(BINARY);
            command.args(arguments).env("ORCHESTRATOR_SOCKET", env.admin_socket()).env_remove("NO_COLOR");
            if plain {
                command.env("NO_COLOR", "1");
            }
            let program = PtyProgram::start(&command, 200, 30);
            program.await_text(text);
            let coloured = arguments[0] != "tree" && !plain;
            assert_eq!(program.has_colors(), coloured, "{arguments:?}: {}", program.printed());
        }
    }
}
