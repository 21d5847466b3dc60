//! Program that receives a document on standard input. Exit code 0 means that it has accepted it, 64 or 65
//! that it refuses its content.

use std::{process::Stdio, time::Duration};

use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_text::sanitize_to;
use tokio::process::Command;

use super::{Document, ReceiverSettings, not_delivered::NotDelivered};
use crate::{
    capture::Tail,
    process::{Environment, Process, RunLimits},
};

/// Time between SIGTERM at the time-out and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// Exit codes that refuse a document for its content: `EX_USAGE` and `EX_DATAERR` of `sysexits.h`, as for
/// handlers of a catalog.
const REFUSES_CONTENT: [i32; 2] = [64, 65];
/// Captured end of each output, in bytes.
const OUTPUT_KEPT: usize = 1_024;

/// Program, started in a process group that ends with it.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// Program and arguments.
    argv: Vec<String>,
    /// Time-out; then the group gets SIGTERM.
    timeout: Duration,
    /// Key of the program in the configuration.
    key: String,
}

/// Captured ends of both outputs.
struct Output {
    out: Tail,
    errors: Tail,
}

impl Program {
    pub(super) fn new(settings: &ReceiverSettings<'_>) -> Self {
        let key = format!("{}.argv", settings.section);
        Self { argv: settings.argv.to_vec(), timeout: settings.timeout, key }
    }

    pub(super) fn name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Runs the program once.
    ///
    /// # Errors
    /// It cannot be started, takes too long, or exits with another code than 0. The text quotes its output.
    pub(super) async fn deliver(&self, document: &Document) -> Result<(), NotDelivered> {
        let name = self.name();
        let (process, pipes) = Process::start(self.command(document)).map_err(|error| {
            format!("{name} cannot be started: {error}: install it, or change {}", self.key)
        })?;
        let line = format!("{}\n", document.json);
        let mut output = Output { out: Tail::new(OUTPUT_KEPT), errors: Tail::new(OUTPUT_KEPT) };
        let Output { out, errors } = &mut output;
        let limits = RunLimits { timeout: self.timeout, grace: GRACE };
        let run =
            process.run(pipes, line.as_bytes(), limits, |piece| out.take(piece), |piece| errors.take(piece));
        let exit = run.await.map_err(|error| format!("the exit code of {name} is unknown: {error}"))?;
        let quoted = output.quoted();
        match exit.status {
            _ if !exit.in_time => Err(format!("{name} did not end within {:?}{quoted}", self.timeout).into()),
            status if status.success() => Ok(()),
            status => Err(NotDelivered {
                failure: LinkFailure::new(
                    FailureKind::Refused,
                    format!("{name} ended with {status}{quoted}"),
                ),
                for_content: status.code().is_some_and(|code| REFUSES_CONTENT.contains(&code)),
            }),
        }
    }

    fn command(&self, document: &Document) -> Command {
        let mut command = Command::new(self.name());
        command.args(self.argv.iter().skip(1));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Environment::default().apply(&mut command);
        command.envs(document.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Output {
    /// Captured output as the end of an error text: standard error, or else standard output.
    fn quoted(&self) -> String {
        let texts = [&self.errors, &self.out].map(|tail| tail.bytes().trim_ascii());
        let text = texts.into_iter().find(|text| !text.is_empty());
        text.map_or_else(String::new, |text| format!(": {}", sanitize_to(text, OUTPUT_KEPT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::document::document;

    fn shell(script: &str, timeout: Duration) -> Program {
        let argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Program { argv, timeout, key: "hook.argv".to_owned() }
    }

    #[tokio::test]
    async fn the_program_gets_the_json_and_the_variables() {
        let (document, file) = (document(), tempfile::NamedTempFile::new().unwrap());
        let path = file.path().display();
        // Cargo sets the last variable for this test; the program must not inherit it.
        let script = format!("{{ cat; echo $ORCHESTRATOR_TCN $CARGO_MANIFEST_DIR; }} > {path}");
        shell(&script, Duration::from_secs(60)).deliver(&document).await.unwrap();
        let wanted = format!("{}\n5\n", document.json);
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), wanted);
    }

    #[tokio::test]
    async fn a_failure_is_reported_with_the_end_of_the_output() {
        let secs = Duration::from_secs(60);
        let said =
            async |script: &str| shell(script, secs).deliver(&document()).await.unwrap_err().failure.reason;
        let text = said("yes x | head -c 3000000; echo the end >&2; exit 3").await;
        assert!(text.starts_with("/bin/sh ended with exit status: 3: the end"), "{text}");
        let text = said("yes long | head -c 3000000; exit 1").await;
        assert!(text.len() < 2 * OUTPUT_KEPT && text.contains("long\\nlong"), "{}", text.len());
        let text = said("kill -9 $$").await;
        assert!(text.contains("signal: 9"), "{text}");
        let missing = Program { argv: vec!["/nowhere/program".to_owned()], ..shell("", secs) };
        let text = missing.deliver(&document()).await.unwrap_err().failure.reason;
        assert!(
            text.contains("/nowhere/program cannot be started") && text.contains("change hook.argv"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn two_exit_codes_refuse_the_content() {
        for (script, for_content) in [
            ("exit 64", true),
            ("exit 65", true),
            ("exit 1", false),
            ("exit 75", false),
            ("kill -9 $$", false),
        ] {
            let error = shell(script, Duration::from_secs(60)).deliver(&document()).await.unwrap_err();
            assert_eq!(error.for_content, for_content, "{script}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_with_its_group() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 1000 & echo $! > {}; wait", file.path().display());
        let text =
            shell(&script, Duration::from_millis(200)).deliver(&document()).await.unwrap_err().failure.reason;
        assert!(text.contains("did not end within 200ms"), "{text}");
        let pid = std::fs::read_to_string(file.path()).unwrap();
        // A killed process runs on for a moment.
        orchestrator_harness::eventually("the group's other process has ended", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
    }
}
