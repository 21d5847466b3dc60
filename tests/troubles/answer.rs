//! The first answer to a trouble: waited for, printed as a row of the runbook's table, and followed by what
//! an operator sees.

use std::{process::Command, time::Instant};

use orchestrator_harness::{Instance, PrintedCause, TestEnv, eventually, wait_for};

const RUNBOOK: &str = include_str!("../../deploy/RUNBOOK.md");

/// A trouble since its beginning.
pub(crate) struct Trouble {
    situation: &'static str,
    begun: Instant,
}

impl Trouble {
    /// A trouble that begins now.
    ///
    /// # Panics
    /// If the runbook has no row for `situation`.
    pub(crate) fn begins(situation: &'static str) -> Self {
        Self::began_at(Instant::now(), situation)
    }

    /// A trouble that began before, with the start of an instance for example.
    ///
    /// # Panics
    /// As [`Trouble::begins`].
    pub(crate) fn began_at(begun: Instant, situation: &'static str) -> Self {
        let row = format!("\n| {situation} | ");
        assert_eq!(RUNBOOK.matches(&row).count(), 1, "a row of deploy/RUNBOOK.md: {situation}");
        Self { situation, begun }
    }

    /// Waits until the first cause of a branch has this text.
    pub(crate) fn shows_first(self, env: &TestEnv, branch: &str, text: &str) -> PrintedCause {
        let cause = env.first_cause(branch, text);
        self.print(&cause.text, &cause.help, &env.why(branch));
        cause
    }

    /// Waits until a cause of a branch has this text. A branch with several servers has a cause for each.
    pub(crate) fn shows(self, env: &TestEnv, branch: &str, text: &str) -> PrintedCause {
        let is_it = |cause: &PrintedCause| cause.text.contains(text);
        let cause = wait_for(text, || env.causes(branch).into_iter().find(is_it));
        self.print(&cause.text, &cause.help, &env.why(branch));
        cause
    }

    /// Starts an instance that ends with exit code 78 and a message with this text. Returns the line of the
    /// message.
    pub(crate) fn refuses_the_start(self, env: &TestEnv, mut instance: Instance, text: &str) -> String {
        assert_eq!(instance.wait().code(), Some(78), "{}", env.log());
        let log = env.log();
        let line = log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {log}"));
        self.print(line, "in the message", &log);
        line.to_owned()
    }

    /// Waits until the log has a line with this text.
    pub(crate) fn logs(self, env: &TestEnv, text: &str) -> String {
        let find = || env.log().lines().find(|line| line.contains(text)).map(str::to_owned);
        let line = wait_for(text, find);
        self.print(&line, "in the message", &line);
        line
    }

    /// Prints a row of the table, and what the program printed.
    pub(crate) fn print(self, answer: &str, command: &str, printed: &str) {
        let Self { situation, begun } = self;
        let seconds = begun.elapsed().as_secs_f64();
        eprintln!("\n| {situation} | {answer} | {command} | {seconds:.1} |\n<<< {situation}\n{printed}\n>>>");
    }
}

/// Waits until no cause of a branch has this text.
pub(crate) fn await_cured(env: &TestEnv, branch: &str, text: &str) {
    eventually(&format!("no cause with {text:?}"), || {
        env.causes(branch).iter().all(|cause| !cause.text.contains(text))
    });
}

/// Runs the command at the beginning of a help as it is printed. Returns all that it printed.
pub(crate) fn run_help(env: &TestEnv, help: &str) -> String {
    run_command(env, help.split("; ").next().unwrap_or_default())
}

/// Runs a command in a shell in the environment's directory. Returns all that it printed.
pub(crate) fn run_command(env: &TestEnv, command: &str) -> String {
    let programs = env.binary().parent().expect("a directory").display();
    let script = format!("PATH={programs}:/usr/sbin:$PATH; {command}");
    let mut shell = Command::new("sh");
    shell.current_dir(env.path()).env("ORCHESTRATOR_SOCKET", env.admin_socket()).args(["-c", &script]);
    let output = shell.output().expect("sh runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
