//! The program in a shell: the first line of a start, the configuration file that is found, completion, help
//! and the width of tables.

use std::{fs, process::Command};

use orchestrator_harness::{Instance, PtyProgram, TestEnv, eventually};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

fn env() -> TestEnv {
    TestEnv::new(BINARY)
}

/// Output and errors of a command whose environment names `file` as the configuration.
fn found(env: &TestEnv, file: &str, arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(BINARY);
    let output = command.current_dir(env.path()).env("ORCHESTRATOR_CONFIG", file).args(arguments).output();
    let output = output.expect("a process");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn commands_find_the_configuration_and_name_it() {
    let env = env();
    for (file, secs) in [("site.toml", 7), ("named.toml", 8)] {
        fs::write(env.path().join(file), format!("[queue]\nhold_secs = {secs}\n")).expect("write");
    }
    let says = "orchestrator: configuration file: site.toml\n";
    for command in ["check", "config print", "backup copy", "restore copy", "catalog check"] {
        let words: Vec<_> = command.split(' ').collect();
        let (out, err) = found(&env, "site.toml", &words);
        assert!(err.contains(says), "{command}: {out}{err}");
        let (out, err) = found(&env, "site.toml", &[&words[..], &["--config", "named.toml"]].concat());
        assert!(!err.contains("configuration file:"), "{command}: {out}{err}");
    }
    let secs = |file, arguments: &[&str]| {
        let (out, _) = found(&env, file, &[&["config", "print"], arguments].concat());
        out.lines().find(|line| line.starts_with("hold_secs")).map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(secs("site.toml", &[]), "hold_secs = 7  # site.toml:2");
    assert_eq!(secs("site.toml", &["--config", "named.toml"]), "hold_secs = 8  # named.toml:2");
    assert_eq!(secs("", &[]), "hold_secs = 43200  # default");
    let (_, err) = found(&env, "missing.toml", &["check"]);
    assert!(err.contains("missing.toml: cannot read this file"), "{err}");
}

#[test]
fn a_start_without_a_configuration_says_what_it_runs() {
    let first_line = |environment: &[(&str, &str)], arguments: &[&str]| {
        let env = env();
        fs::write(env.path().join("site.toml"), "[queue]\n").expect("write");
        let mut command = env.bare_command();
        let socket = format!("admin.unix_socket={}", env.admin_socket().display());
        command.args(["--set", "admin.listen=\"\"", "--set", &socket]).args(arguments);
        command.env("ORCHESTRATOR_CONFIG", "").envs(environment.iter().copied());
        let instance = Instance::spawn(command);
        eventually("the endpoint to answer", || env.cli(&["tree"]).0 == 0);
        instance.terminate();
        env.log().lines().next().unwrap_or_default().to_owned()
    };
    let line = first_line(&[], &[]);
    for part in ["no configuration: runs the queue", "directory ./var", "no TCP port", "--help"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let line = first_line(&[("ORCHESTRATOR_CONFIG", "site.toml")], &[]);
    assert_eq!(line, "orchestrator: configuration file: site.toml");
    assert!(first_line(&[], &["--config", "site.toml"]).contains(" INFO "));
    let line = first_line(&[], &["--quiet", "--config", "site.toml"]);
    assert!(!line.contains(" INFO "), "{line}");
    assert!(first_line(&[], &["--only", "queue", "-v"]).contains(" INFO "));
}

#[test]
fn only_commands_to_an_instance_show_the_options_that_select_it() {
    let env = env();
    for command in ["run", "check", "backup", "restore", "config print", "completions", "as", ""] {
        let words: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let (code, help, _) = env.cli(&words);
        assert!(code == 0 && !help.contains("--socket"), "{command}: {help}");
    }
    for command in ["tree", "why", "pause", "queue ls", "catalog run-once", "provenance import"] {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let (code, help, _) = env.cli(&words);
        assert!(code == 0 && help.contains("Connection to a running instance:"), "{command}: {help}");
    }
    let reached = [
        "--url http://127.0.0.1:9 tree",
        "tree --url http://127.0.0.1:9",
        "queue --url http://127.0.0.1:9 ls",
    ];
    for line in reached {
        let (code, _, err) = env.cli(&line.split(' ').collect::<Vec<_>>());
        assert!(code == 3 && err.contains("http://127.0.0.1:9"), "{line}: {err}");
    }
}

#[test]
fn shells_complete_children_jobs_and_names() {
    let env = env();
    let _instance = env.start();
    env.write("demo.1.txt", "hello 1 2\nhelp 1 2\nother 1 2\n");
    eventually("the jobs", || env.cli(&["queue", "peek"]).1.contains("hello"));
    // bash and zsh run the function of the script that `completions` prints.
    let bash = r#"
        orchestrator() { "$BINARY" "$@"; }
        source <(orchestrator completions bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_orchestrator orchestrator "${COMP_WORDS[COMP_CWORD]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let zsh = r#"
        orchestrator() { "$BINARY" "$@" }
        compdef() { :; }
        _describe() { print -l -- "${(P@)3}" }
        eval "$(orchestrator completions zsh)"
        words=("$@") CURRENT=$#
        _clap_dynamic_completer_orchestrator
    "#;
    let complete = |shell: &str, words: &str| {
        let words = words.split(' ').map(|word| word.trim_matches('_'));
        let script = match shell {
            "bash" => Some(bash),
            "zsh" => Some(zsh),
            _ => None,
        };
        let mut command = Command::new(if script.is_some() { shell } else { BINARY });
        match script {
            Some(script) => command.args(["-c", script, shell]).args(words).env("BINARY", BINARY),
            None => command.arg("--").args(words).env("ORCHESTRATOR_COMPLETE", shell),
        };
        let output = command.env("ORCHESTRATOR_SOCKET", env.admin_socket()).output().expect("a shell");
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        // The shells add help after a colon or a tabulator.
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let mut values: Vec<_> =
            text.lines().filter_map(|line| line.split([':', '\t']).next()).map(str::trim).collect();
        values.sort_unstable();
        values.join(" ")
    };
    for shell in ["bash", "zsh", "fish"] {
        for (words, expected) in [
            ("orchestrator pause queue/queue_", "queue/queue_console queue/queue_store"),
            ("orchestrator queue show hel", "hello help"),
            ("orchestrator run --only p", "producer provenance"),
            ("orchestrator config init --for n", "nixpkgs-update-supervisor"),
            ("orchestrator queue in", "in-flight init instances"),
        ] {
            // Values of an instance that answers late are left out.
            eventually(&format!("{shell}: {words}: {expected}"), || complete(shell, words) == expected);
        }
        let (code, script, _) = env.cli(&["completions", shell]);
        assert!(code == 0 && script.contains("ORCHESTRATOR_COMPLETE"), "{script}");
    }
}

#[test]
fn tree_and_top_fit_a_terminal_of_80_columns() {
    let env = env().set("queue.database=missing/queue.db");
    let mut instance = env.start();
    eventually("the fault", || env.cli(&["tree"]).1.contains("sqlite"));
    for arguments in [&["tree"][..], &["top", "--once", "--interval", "0.1"]] {
        let mut command = Command::new(BINARY);
        command.args(arguments).env("ORCHESTRATOR_SOCKET", env.admin_socket());
        let mut program = PtyProgram::start(&command, 80, 30);
        assert!(program.wait().success());
        let printed = program.printed();
        let children = env.cli(arguments).1.lines().filter(|line| !line.starts_with("up ")).count();
        let lines: Vec<_> = printed.lines().filter(|line| !line.starts_with("up ")).collect();
        assert_eq!(lines.len(), children, "each child has one line: {printed}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{printed}");
    }
    assert!(instance.ended().is_none());
}
