//! Files and tables of a program that is newer than today's: they are refused by name, and not changed.

use std::{fs, path::Path};

use orchestrator_harness::{Database, Instance, Postgres, TestEnv, eventually, former_program};

use crate::{
    LATER,
    installed::{Installed, Stop},
    today,
};

/// A file, the statement of the newer program, and the text of the refusal. `*` stands for the file's path.
const NEWER: [(&str, &str, &str); 4] = [
    ("queue.db", "PRAGMA user_version = 3", "database * has schema version 3, this program knows 2"),
    (
        "queue.db",
        "UPDATE orchestrator_meta SET value = 2 WHERE name = 'own_version'",
        "database * has schema version 2, this program knows 1",
    ),
    ("rows.db", "PRAGMA user_version = 2", "* is of version 2 and this program knows 1 at most"),
    ("hooks.db", "PRAGMA user_version = 2", "the outbox * of the hooks is that of a newer version"),
];

fn start(env: &TestEnv) -> Instance {
    let text = "[[hook]]\nname = 'failed'\non = 'queue.failed'\nurl = 'http://127.0.0.1:9/'\n";
    fs::write(env.path().join("hooks.toml"), text).expect("the configuration");
    let mut command = env.command();
    command.args(["--config", "hooks.toml", "--set", "provenance.sqlite.path=rows.db"]);
    command.args(["--set", "provenance.dead_letters=dead.db"]);
    Instance::spawn(command)
}

#[test]
fn files_of_a_newer_program_are_refused_by_name_and_not_changed() {
    for (name, sql, said) in NEWER {
        let env = TestEnv::new(today());
        let file = env.path().join(name);
        let instance = start(&env);
        instance.await_service(&env);
        eventually("all children to run", || env.snapshot().is_some_and(|tree| tree.runs()));
        Stop::Signal.end(instance, &env);
        Database::open(&file).execute(sql);
        let before = fs::read(&file).expect("the file");

        let instance = start(&env);
        let (first, last) = said.split_once('*').expect("a place for the path");
        eventually("the refusal", || {
            let log = env.log();
            let is_told = |line: &str| line.contains(last) && line.contains(name) && line.contains(first);
            log.lines().any(is_told)
        });
        instance.kill_nine();
        assert_eq!(fs::read(&file).expect("the file"), before, "{name} is changed");
    }
}

/// Today's program makes the tables of a shared queue, and `newer` changes them. `program` refuses them as
/// `said`, and changes nothing.
fn refuse_tables(database: &str, newer: &str, program: &Path, said: &str) {
    let server = Postgres::shared();
    let dsn = server.create_database(database);
    let installed = Installed::new(today());
    let env = TestEnv::new(installed.path());
    let env = env.set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"));
    let instance = env.start();
    eventually("the tables", || env.link("queue/queue_store").state == "up");
    Stop::Signal.end(instance, &env);
    server.script(&dsn, newer);
    let state = || {
        let schemas = "SELECT nspname FROM pg_namespace ORDER BY 1";
        let tables = ["instance", "function_schema", "property"];
        let tables = tables.map(|table| format!("TABLE orchestrator_queue.{table}")).join("; ");
        server.script(&dsn, &format!("{schemas}; {tables}"))
    };
    let before = state();
    installed.replace(program);
    let instance = env.spawn();
    let said =
        format!("the tables in the schema orchestrator_queue have version {said}: run the newer program");
    eventually("the refusal", || env.log().contains(&said));
    instance.kill_nine();
    assert_eq!(state(), before);
}

/// Those of provenance are in the tests of its crate.
#[test]
fn tables_of_a_newer_program_are_refused_by_name_and_not_changed() {
    let newer = "UPDATE orchestrator_queue.property SET value = '4' WHERE name = 'version'";
    refuse_tables("newer", newer, today(), "4, this program knows 3");
}

/// It can use those that it has made itself, also after today's program.
#[test]
fn tables_that_today_has_made_are_refused_by_a_later_commit_and_not_changed() {
    refuse_tables("later", "", &former_program(LATER), "3, this program knows 1");
}
