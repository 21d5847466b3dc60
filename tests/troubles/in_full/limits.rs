//! Limits and files that a start lacks: it is refused with exit code 78.

use std::fs;

use orchestrator_harness::{Instance, TestEnv};

use crate::{
    BINARY,
    answer::{Trouble, run_command},
    input::set_mode,
};

#[test]
fn too_few_descriptors_are_named_with_the_number_that_is_needed() {
    for limit in [24, 64] {
        let env = TestEnv::new(BINARY).shell(&format!("ulimit -n {limit}"));
        let trouble = Trouble::begins("too few file descriptors");
        let line =
            trouble.refuses_the_start(&env, env.spawn(), &format!("the limit on open files is {limit}"));
        assert!(line.contains("needs 80 at least: raise it with `ulimit -n`, or LimitNOFILE="), "{line}");
        let mut needed = env.shell("ulimit -n 80").spawn();
        assert!(needed.ended().is_none());
    }
}

/// Root has no such limit.
#[test]
fn too_few_processes_are_named_with_the_limit() {
    let user =
        "[ $(id -u) != 0 ] || exec setpriv --reuid 65533 --clear-groups prlimit --nproc=6 \"$0\" \"$@\"";
    let env = TestEnv::new(BINARY).shell(&format!("{user}; ulimit -p 6"));
    run_command(&env, "chmod -R a+rwX .");
    let trouble = Trouble::begins("too few processes or threads");
    let line = trouble.refuses_the_start(&env, env.spawn(), "cannot start the ");
    assert!(line.contains("raise the limits on processes (`ulimit -u`, TasksMax="), "{line}");
}

#[test]
fn a_second_process_on_one_file_is_refused_while_the_first_works() {
    let first = TestEnv::new(BINARY);
    let instance = first.start();
    let database = first.database_path().display().to_string();
    let second = TestEnv::new(BINARY).set(&format!("queue.database={database}"));
    let trouble = Trouble::begins("two processes use one SQLite file");
    let line = trouble.refuses_the_start(&second, second.spawn(), "is used by a running instance");
    assert!(
        line.contains(&database) && line.contains("stop that one, or set another path in queue.database")
    );
    assert!(instance.terminate().success(), "what the message says");
    let _instance = second.start();
}

/// Starts with a file of this configuration, or without one, and returns the line with `text` of the refusal.
fn refusal(situation: &'static str, config: Option<&str>, text: &str) -> String {
    let env = TestEnv::new(BINARY);
    let file = env.path().join("site.toml");
    if let Some(config) = config {
        fs::write(&file, config).expect("write the configuration");
    }
    fs::write(env.path().join("tokens"), "operator bob\n").expect("write a file");
    set_mode(&env.path().join("tokens"), 0o600);
    let mut command = env.bare_command();
    command.args(["run", "--config"]).arg(&file);
    Trouble::begins(situation).refuses_the_start(&env, Instance::spawn(command), text)
}

#[test]
fn a_mistake_in_a_file_is_named_with_its_line() {
    let mistake = "a key is misspelled, or a file has a wrong line";
    let line = refusal(mistake, Some("[queue]\nhold_sec = 3\n"), "site.toml:2: queue.hold_sec: unknown key");
    assert!(line.ends_with("; did you mean hold_secs?"), "{line}");
    let tokens = "[admin]\nlisten = \"\"\ntokens_file = \"tokens\"\n";
    let line = refusal(mistake, Some(tokens), "tokens:1: ");
    assert!(line.ends_with("2 words, expected three: ROLE NAME TOKEN"), "{line}");
    let line = refusal("the file of the configuration is missing", None, "site.toml: ");
    assert!(line.contains("cannot read this file: No such file"), "{line}");
}
