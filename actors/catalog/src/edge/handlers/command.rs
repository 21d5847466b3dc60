//! `command`: runs a program for each row. It reads the row from standard input, answers on
//! standard output and reports the outcome by its exit code. No shell is involved.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use orchestrator_catalog_rules::{
    answer::{fields, quoted},
    outcome_kind::{ExitCodes, OutcomeKind},
};
use orchestrator_edge::{
    capture::{Head, Tail},
    process::{Environment, Exit, Process, RunLimits},
};
use tokio::process;

use super::planner::line_of;
use crate::handler::{Handler, Outcome, Task};

/// Captured part of standard error, in bytes.
const ERRORS_KEPT: usize = 2 * 1024;

/// Runs a program for each row, in a process group that ends with the work.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments; a name without a slash is looked up in `PATH`.
    pub argv: Vec<String>,
    /// Working directory; by default that of this process.
    pub cwd: Option<PathBuf>,
    /// Maximum run time; then the group gets SIGTERM.
    pub timeout: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Maximum size of the answer, in bytes.
    pub answer_bytes: usize,
    /// Meaning of exit codes.
    pub exit_codes: ExitCodes,
    /// Additional environment variables.
    pub environment: Environment,
}

/// Captured output of the program.
struct Output {
    answer: Head,
    errors: Tail,
}

impl Handler for Command {
    async fn handle(&self, task: Task) -> Outcome {
        let (process, pipes) = match Process::start(self.process(&task)) {
            Ok(started) => started,
            Err(error) => return Outcome::Later(self.not_started(&error)),
        };
        let line = line_of(&task.row);
        let mut output = Output { answer: Head::new(self.answer_bytes), errors: Tail::new(ERRORS_KEPT) };
        let Output { answer, errors } = &mut output;
        let limits = RunLimits { timeout: self.timeout, grace: self.grace };
        let run = process.run(pipes, &line, limits, |piece| answer.take(piece), |piece| errors.take(piece));
        match run.await {
            Ok(ended) => self.outcome(&ended, &output),
            Err(error) => Outcome::failed(format!("how {} ended is not known: {error}", self.program())),
        }
    }
}

impl Command {
    fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    fn process(&self, task: &Task) -> process::Command {
        let mut command = process::Command::new(self.program());
        command.args(self.argv.iter().skip(1));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        self.environment.apply(&mut command);
        let attempt = task.attempt.map(|attempt| attempt.to_string());
        for (name, value) in [
            ("ORCHESTRATOR_RULE", Some(&task.rule)),
            ("ORCHESTRATOR_TOKEN", task.token.as_ref()),
            ("ORCHESTRATOR_ATTEMPT", attempt.as_ref()),
        ] {
            command.envs(value.map(|value| (name, value)));
        }
        command
    }

    fn outcome(&self, ended: &Exit, output: &Output) -> Outcome {
        let program = self.program();
        let errors = output.errors();
        if !ended.in_time {
            return Outcome::failed(format!("{program} did not end within {:?}{errors}", self.timeout));
        }
        let Some(code) = ended.status.code() else {
            return Outcome::failed(format!("{program} was ended by a {}{errors}", ended.status));
        };
        let text = format!("{program} exited with {code}{errors}");
        match self.exit_codes.kind(code) {
            OutcomeKind::Done => self.done(output),
            OutcomeKind::Failed => Outcome::failed(text),
            OutcomeKind::Later => Outcome::Later(text),
            OutcomeKind::Dead => Outcome::dead(text),
        }
    }

    fn done(&self, output: &Output) -> Outcome {
        let program = self.program();
        let Some(answer) = output.answer.whole() else {
            let limit = self.answer_bytes;
            return Outcome::failed(format!(
                "{program} answered with more than {limit} bytes: raise answer_bytes"
            ));
        };
        match fields(answer) {
            Ok(fields) => Outcome::Done(fields),
            Err(reason) => Outcome::failed(format!("{program} answered {reason}")),
        }
    }

    fn not_started(&self, error: &io::Error) -> String {
        let directory = self.cwd.as_ref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
        format!(
            "{} cannot be started{directory}: {error}: install it, or change handler.argv",
            self.program()
        )
    }
}

impl Output {
    /// Captured standard error, as the end of an error text.
    fn errors(&self) -> String {
        let output = quoted(self.errors.bytes());
        if output.is_empty() { String::new() } else { format!(": {output}") }
    }
}
