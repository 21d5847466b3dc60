//! Completion of values by the shell: children, jobs and rules of the running instance, and names that this
//! build knows.

use std::{
    ffi::{OsStr, OsString},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use orchestrator_observe::without_root;
use orchestrator_subsystem::wire::{NodeSnapshot, TreeSnapshot};
use serde_json::Value;

use crate::{
    arguments::{self, Arguments},
    cli, subsystems,
};

/// Time after which the values of an instance are left out.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Adds completers to all arguments with known values.
pub(crate) fn add_to(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        let values: fn() -> Vec<String> = match argument.get_id().as_str() {
            "path" => children,
            "attr_path" => jobs,
            "rule" => rules,
            "only" => || subsystems::names().into_iter().map(str::to_owned).collect(),
            "program" => originals,
            _ => return argument,
        };
        argument.add(ArgValueCompleter::new(move |current: &OsStr| candidates(current, values)))
    });
    command.mut_subcommands(add_to)
}

/// Those of `values` that begin with `current`.
fn candidates(current: &OsStr, values: fn() -> Vec<String>) -> Vec<CompletionCandidate> {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(values()));
    let values = receiver.recv_timeout(WAIT_MAX).unwrap_or_default();
    let current = current.to_string_lossy();
    values.into_iter().filter(|value| value.starts_with(&*current)).map(CompletionCandidate::new).collect()
}

/// Answer of the running instance to a command line that prints JSON; null without an answer.
fn answer(line: &str) -> Value {
    let words = ["orchestrator"].into_iter().chain(line.split(' ')).map(OsString::from);
    let mut out = Vec::new();
    if let Ok(Arguments { command: Some(arguments::Command::Client(command)), target, .. }) =
        Arguments::read(words)
    {
        // Without an answer, there is nothing to propose.
        let _ = cli::execute(&command, &target, &mut out);
    }
    serde_json::from_slice(&out).unwrap_or_default()
}

fn children() -> Vec<String> {
    let mut paths = Vec::new();
    let mut add = |node: &NodeSnapshot| paths.push(without_root(&node.path).to_owned());
    if let Ok(tree) = serde_json::from_value::<TreeSnapshot>(answer("tree --json")) {
        tree.root.walk(&mut add);
    }
    paths
}

/// Jobs that workers have, and those that are next.
fn jobs() -> Vec<String> {
    let rows = ["queue in-flight --json", "queue peek --json"].map(answer);
    let rows = rows.iter().filter_map(Value::as_array).flatten();
    rows.filter_map(|row| row["attr_path"].as_str()).map(str::to_owned).collect()
}

fn rules() -> Vec<String> {
    let catalogs = answer("catalog status --json");
    let catalogs = catalogs.as_array().into_iter().flatten();
    catalogs
        .filter_map(|catalog| catalog["rules"].as_object())
        .flat_map(|rules| rules.keys().cloned())
        .collect()
}

fn originals() -> Vec<String> {
    let originals = subsystems::SUBSYSTEMS.iter().flat_map(|subsystem| subsystem.originals());
    originals.map(|original| original.name.to_owned()).collect()
}
