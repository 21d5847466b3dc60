//! `plan`: a program that decides which columns a claim writes (CONTRACT CP17). It is started at the
//! first candidate and runs as long as its rule. It reads one row at a time from standard input and
//! answers with one line on standard output.

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    pin::pin,
    process::Stdio,
    time::Duration,
};

use futures_util::{FutureExt, future::join};
use orchestrator_catalog_rules::{
    answer::quoted,
    rows::{Row, check_weight},
};
use orchestrator_edge::{
    capture::{Tail, read},
    process::{Environment, Pipes, Process},
};
use orchestrator_text::sanitize_to;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::{Instant, timeout},
};

/// Captured part of standard error, in bytes.
const ERRORS_KEPT: usize = 2 * 1024;
/// Maximum length of a quoted unreadable answer, in bytes.
const SHOWN: usize = 120;
/// Time for which a program that failed may end by itself, and its last errors are read.
const LINGER: Duration = Duration::from_secs(1);
/// Size of the answers of a poll, in bytes, after which no further row is asked about.
const ANSWERS_KEPT: usize = 1 << 20;
/// Time after which no further row of a poll is asked about: an agent writes nothing meanwhile.
const TURN: Duration = Duration::from_secs(1);

/// Answer to a row: the columns to write, or None to leave the row; or why there is none.
pub(crate) type PlanAnswer = Result<Option<Row>, String>;

/// Answers to the rows of one poll.
#[derive(Debug, Default)]
pub struct PlanAnswers {
    /// Answers to the first rows, in their order. There may be fewer than rows.
    pub answers: Vec<PlanAnswer>,
    /// Failure of the program before it answered any row.
    pub failure: Option<String>,
}

/// Program that plans the claims of a rule.
#[derive(Debug)]
pub struct Planner {
    rule: String,
    argv: Vec<String>,
    cwd: Option<PathBuf>,
    environment: Environment,
    timeout: Duration,
    line_bytes: usize,
    /// The program. Absent while it is asked, so that it ends if its answer is not awaited.
    program: RefCell<Option<Program>>,
    /// Number of failures before any answer, since the last answer.
    failures: Cell<usize>,
}

/// The running program.
#[derive(Debug)]
struct Program {
    process: Process,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// None: it is closed.
    stderr: Option<ChildStderr>,
    errors: Tail,
}

impl Planner {
    /// The program is not started yet.
    pub fn new(rule: &str, argv: Vec<String>, cwd: Option<PathBuf>, environment: Environment) -> Self {
        Self {
            rule: rule.to_owned(),
            argv,
            cwd,
            environment,
            timeout: Duration::from_secs(30),
            line_bytes: 1 << 20,
            program: RefCell::default(),
            failures: Cell::default(),
        }
    }

    /// Maximum time for an answer, and maximum size of a line, in bytes.
    #[must_use]
    pub fn limits(self, timeout: Duration, line_bytes: usize) -> Self {
        Self { timeout, line_bytes, ..self }
    }

    /// Number of failures before any answer, since the last answer. A caller begins with another row
    /// each time, since the first one may be the cause.
    pub fn failures(&self) -> usize {
        self.failures.get()
    }

    /// Asks about `rows`, for about a second at most. The program ends with a failure, or if this
    /// future is dropped. A failure after an answer belongs to the row; one before any answer may be
    /// the program's.
    pub async fn plan(&self, rows: &[Row]) -> PlanAnswers {
        let begun = Instant::now();
        let (mut answers, mut any_answer, mut size) = (Vec::new(), false, 0);
        let kept = self.program.borrow_mut().take();
        let mut program = kept.and_then(|mut kept| kept.is_ready().then_some(kept));
        for row in rows {
            let line = line_of(row);
            if line.len() > self.line_bytes {
                let limit = self.line_bytes;
                answers.push(Err(format!("the row has more than {limit} bytes: raise plan.line_bytes")));
                continue;
            }
            let was_kept = program.is_some() && !any_answer;
            let mut answer = self.ask(&mut program, &line, &mut size).await;
            if was_kept && answer.is_err() {
                // It may have ended since the last poll.
                answer = self.ask(&mut program, &line, &mut size).await;
            }
            if answer.is_err() && !any_answer {
                self.failures.set(self.failures.get().wrapping_add(1));
                return PlanAnswers { answers, failure: answer.err() };
            }
            self.failures.set(0);
            any_answer = true;
            let failed = answer.is_err();
            answers.push(answer);
            if failed || size >= ANSWERS_KEPT || begun.elapsed() >= TURN {
                break;
            }
        }
        self.program.replace(program);
        PlanAnswers { answers, failure: None }
    }

    /// Asks about one row, and starts the program if it does not run. After a failure it has ended.
    async fn ask(&self, slot: &mut Option<Program>, line: &[u8], size: &mut usize) -> PlanAnswer {
        let mut program = match slot.take() {
            Some(program) => program,
            None => self.start()?,
        };
        let answer = match timeout(self.timeout, program.exchange(line, self.line_bytes)).await {
            Ok(Ok(line)) => {
                *size += line.len();
                parse(&line)
            }
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("did not answer within {:?}", self.timeout)),
        };
        match answer {
            Ok(answer) => {
                *slot = Some(program);
                Ok(answer)
            }
            Err(reason) => {
                let end = program.end().await;
                Err(format!("{} {reason}{end}", self.name()))
            }
        }
    }

    fn start(&self) -> Result<Program, String> {
        let mut command = Command::new(self.name());
        command.args(self.argv.iter().skip(1));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        self.environment.apply(&mut command);
        command.env("ORCHESTRATOR_RULE", &self.rule);
        let failed = |error: &dyn std::fmt::Display| {
            format!("{} cannot be started: {error}: install it, or change plan.argv", self.name())
        };
        let (process, pipes) = Process::start(command).map_err(|error| failed(&error))?;
        let Pipes { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) } = pipes else {
            return Err(failed(&"it has no pipes"));
        };
        tracing::info!(rule = self.rule, program = self.name(), "the program that plans claims is started");
        let (stdout, errors) = (BufReader::new(stdout), Tail::new(ERRORS_KEPT));
        Ok(Program { process, stdin, stdout, stderr: Some(stderr), errors })
    }

    fn name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

impl Program {
    /// Returns false if it has ended, or has written something that nobody asked for.
    fn is_ready(&mut self) -> bool {
        self.process.ended().now_or_never().is_none() && self.stdout.fill_buf().now_or_never().is_none()
    }

    /// Sends a line, and returns the line of the answer, at most `limit` bytes.
    async fn exchange(&mut self, line: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let Self { stdin, stdout, stderr, errors, .. } = self;
        let send = async {
            // If it has ended, so has its output.
            let _ = stdin.write_all(line).await;
        };
        let mut exchange = pin!(join(send, read_line(stdout, limit)));
        let mut piece = [0; 1024];
        loop {
            let errors_read = async {
                match stderr {
                    Some(stderr) => stderr.read(&mut piece).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ((), answer) = &mut exchange => return answer,
                // A program that does not find room for its errors would wait.
                read = errors_read => match read {
                    Ok(length @ 1..) => errors.take(&piece[..length]),
                    _ => *stderr = None,
                },
            }
        }
    }

    /// Ends the program and describes how, with its last errors.
    async fn end(self) -> String {
        let Self { process, stdin, stdout, stderr, mut errors } = self;
        drop((stdin, stdout));
        let in_time = timeout(LINGER, process.ended()).await.is_ok();
        let status = process.reap().await;
        if let Some(stderr) = stderr {
            let _ = timeout(LINGER, read(stderr, |piece| errors.take(piece))).await;
        }
        let errors = quoted(errors.bytes());
        let errors = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        match status {
            Ok(status) if in_time => format!(" ({status}){errors}"),
            _ => format!(" (it is killed){errors}"),
        }
    }
}

/// One line: the values of a row have no line breaks.
pub(super) fn line_of(row: &Row) -> Vec<u8> {
    // Rows come from JSON, so they can be serialized.
    let mut line = serde_json::to_vec(row).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Reads one line, and checks that nothing follows it.
async fn read_line(stdout: &mut BufReader<ChildStdout>, limit: usize) -> Result<Vec<u8>, String> {
    let mut line = Vec::new();
    loop {
        let piece = stdout.fill_buf().await.map_err(|error| format!("cannot be read: {error}"))?;
        if piece.is_empty() {
            return Err("ended without an answer".to_owned());
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(piece.len());
        if line.len() + length > limit {
            return Err(format!("answered with more than {limit} bytes: raise plan.line_bytes"));
        }
        line.extend_from_slice(&piece[..length]);
        stdout.consume(length + usize::from(end.is_some()));
        if end.is_none() {
            continue;
        }
        // Later answers would be taken for those of other rows.
        return if stdout.buffer().is_empty() {
            Ok(line)
        } else {
            Err("answered a row with more than one line".to_owned())
        };
    }
}

/// Parses an answer: one JSON object, or null.
fn parse(line: &[u8]) -> PlanAnswer {
    let wanted = "answer each row with one line, an object or null";
    check_weight(line)?;
    serde_json::from_slice::<Option<Row>>(line).map_err(|error| {
        format!(
            "answered `{}` ({}): {wanted}",
            sanitize_to(line, SHOWN),
            sanitize_to(error.to_string(), SHOWN)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_object_or_null() {
        assert_eq!(parse(b"null"), Ok(None));
        assert_eq!(parse(b" {\"a\": 1}\r"), Ok(serde_json::from_str("{\"a\": 1}").ok()));
        for wrong in ["", "1", "[]", "{}{}", "debug", "\u{1b}[2J"] {
            let text = parse(wrong.as_bytes()).expect_err(wrong);
            assert!(text.starts_with("answered `") && text.ends_with("an object or null"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(1 << 20));
        assert!(parse(deep.as_bytes()).is_err_and(|text| text.len() < 500));
    }
}
