//! `command`: a program for each row. It gets the row on standard input, answers on standard output, and says with its exit
//! code how it went. There is no shell between.

use std::{io, path::PathBuf, pin::pin, process::ExitStatus, process::Stdio, time::Duration};

use futures_util::future::{Either, join3, select};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process, time::timeout};

use super::{
    capture::{Head, Tail, read},
    environment::Environment,
    process::{Pipes, Process},
};
use crate::{
    answer::{fields, quoted},
    handling::{Handler, Task, Verdict},
    verdict_kind::{ExitCodes, VerdictKind},
};

/// Of what it says on standard error, this is kept, bytes.
const ERRORS_KEPT: usize = 2 * 1024;

/// How long its pipes are read once it has ended: only who has left the group can hold them open.
const LINGER: Duration = Duration::from_secs(1);

/// Runs a program for each row, in a process group of its own that ends with the work.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program and its arguments; a name without a slash is looked for in `PATH`.
    pub argv: Vec<String>,
    /// Where it runs; else where we do.
    pub cwd: Option<PathBuf>,
    /// How long it may take. Then its group gets SIGTERM.
    pub timeout: Duration,
    /// How long after SIGTERM the group gets SIGKILL.
    pub grace: Duration,
    /// Longest answer, bytes.
    pub answer_bytes: usize,
    /// What its exit codes mean.
    pub exit_codes: ExitCodes,
    /// Its variables beside the usual ones.
    pub environment: Environment,
}

/// How it ended.
struct Ended {
    status: ExitStatus,
    in_time: bool,
}

/// What it said, as far as it is kept.
struct Said {
    answer: Head,
    errors: Tail,
}

impl Handler for Command {
    async fn handle(&self, task: Task) -> Verdict {
        let (process, pipes) = match Process::start(self.process(&task)) {
            Ok(started) => started,
            Err(error) => return Verdict::Later(self.not_started(&error)),
        };
        // One line: JSON has no line breaks of its own.
        let line = format!("{}\n", Value::Object(task.row));
        let mut said = Said { answer: Head::new(self.answer_bytes), errors: Tail::new(ERRORS_KEPT) };
        let ended = {
            let talk = pin!(said.talk(pipes, line.as_bytes()));
            let ended = pin!(self.ended(process));
            match select(ended, talk).await {
                Either::Left((ended, talk)) => {
                    // What is not read by then is not waited for.
                    let _ = timeout(LINGER, talk).await;
                    ended
                }
                Either::Right(((), ended)) => ended.await,
            }
        };
        match ended {
            Ok(ended) => self.verdict(&ended, &said),
            Err(error) => Verdict::Failed(format!("how {} ended is not known: {error}", self.program())),
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
        command.env_clear().envs(self.environment.of(std::env::vars_os()));
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

    /// Waits for the end, and brings it about if it does not come in time.
    async fn ended(&self, process: Process) -> io::Result<Ended> {
        let in_time = timeout(self.timeout, process.ended()).await.is_ok();
        if !in_time {
            process.ask_to_end();
            // Whatever is left then is killed.
            let _ = timeout(self.grace, process.ended()).await;
        }
        process.reap().await.map(|status| Ended { status, in_time })
    }

    fn verdict(&self, ended: &Ended, said: &Said) -> Verdict {
        let program = self.program();
        let errors = said.errors();
        if !ended.in_time {
            return Verdict::Failed(format!("{program} did not end within {:?}{errors}", self.timeout));
        }
        let Some(code) = ended.status.code() else {
            return Verdict::Failed(format!("{program} was ended by a {}{errors}", ended.status));
        };
        let text = format!("{program} exited with {code}{errors}");
        match self.exit_codes.kind(code) {
            VerdictKind::Done => self.done(said),
            VerdictKind::Failed => Verdict::Failed(text),
            VerdictKind::Later => Verdict::Later(text),
            VerdictKind::Dead => Verdict::Dead(text),
        }
    }

    fn done(&self, said: &Said) -> Verdict {
        let program = self.program();
        let Some(answer) = said.answer.whole() else {
            let limit = self.answer_bytes;
            return Verdict::Failed(format!(
                "{program} answered with more than {limit} bytes: raise answer_bytes"
            ));
        };
        match fields(answer) {
            Ok(fields) => Verdict::Done(fields),
            Err(reason) => Verdict::Failed(format!("{program} answered {reason}")),
        }
    }

    fn not_started(&self, error: &io::Error) -> String {
        let place = self.cwd.as_ref().map(|cwd| format!(" in {}", cwd.display())).unwrap_or_default();
        format!("{} cannot be started{place}: {error}: install it, or change handler.argv", self.program())
    }
}

impl Said {
    /// Hands it its row, and listens until it has closed its pipes.
    async fn talk(&mut self, pipes: Pipes, line: &[u8]) {
        let feed = async {
            if let Some(mut stdin) = pipes.stdin {
                // It need not read its row; one that has ended without breaks the pipe.
                let _ = stdin.write_all(line).await;
            }
        };
        let answer = async {
            if let Some(stdout) = pipes.stdout {
                read(stdout, |piece| self.answer.take(piece)).await;
            }
        };
        let errors = async {
            if let Some(stderr) = pipes.stderr {
                read(stderr, |piece| self.errors.take(piece)).await;
            }
        };
        join3(feed, answer, errors).await;
    }

    /// What it said of its trouble, to be put behind a text.
    fn errors(&self) -> String {
        let said = quoted(self.errors.bytes());
        if said.is_empty() { String::new() } else { format!(": {said}") }
    }
}
