//! The execution of commands, to children and to consoles. Every command is authorised, executed and recorded
//! in the audit log. A command that cannot be recorded is refused. A console's verb that changes nothing is
//! recorded only if its caller is refused.

use hyper::StatusCode;
use orchestrator_observe::{is_in_branch, without_root};
use orchestrator_subsystem::{
    Console, ConsoleCallError, ConsoleVerb, Effect, Until,
    wire::{CommandArgs, CommandResponse, ErrorKind, REASON_LIMIT},
};
use orchestrator_supervise::{Command, Origin, State};
use orchestrator_text::sanitize;
use serde_json::{Value, json};

use crate::{
    admin_metrics::AdminMetrics,
    api_error::ApiError,
    audit::{self, Record, ReservedLine},
    handler_context::HandlerContext,
    role::{Caller, Role},
};

/// Note in the answer to a panic of a thread.
const ACTS_LATER: &str = "a thread panics at the next work item that it begins";

impl HandlerContext {
    /// Executes a command to a child. `args` are read only if the caller is authorised. The status is 202 if
    /// the command stops the endpoint before the child has its new state.
    pub(crate) async fn execute_command(
        &self,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<CommandArgs, ApiError>>,
    ) -> Result<(StatusCode, CommandResponse), ApiError> {
        // The tree reports an unknown path.
        let path = self.tree.resolve(path).unwrap_or_else(|| path.to_owned());
        let mut entry = self.authorise(caller, &path, verb, false)?;
        let done = self.execute(&mut entry, caller, &path, verb, args).await;
        entry.close(done)
    }

    /// Executes a command of a child's console. `args` are read only if the caller is authorised.
    pub(crate) async fn ask_console(
        &self,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<Value, ApiError>>,
    ) -> Result<Value, ApiError> {
        let path = self.tree.resolve(path).unwrap_or_else(|| path.to_owned());
        let verb = Console::verb(&self.tree, &path, verb).map_err(|error| (error, verb));
        let (name, effect) = match &verb {
            Ok(verb) => (verb.name(), verb.effect()),
            Err((_, name)) => (*name, Effect::Changes),
        };
        let mut entry = self.authorise(caller, &path, name, effect == Effect::Reads)?;
        let done = match verb {
            Ok(verb) => self.execute_console(&mut entry, &path, &verb, args).await,
            Err((error, name)) => Err(of_console(error, &path, name)),
        };
        if !matches!(effect, Effect::Reads | Effect::Delivers) {
            let (by, reason) = (caller.who.clone(), entry.record.reason.clone());
            let outcome = done.as_ref().map_or_else(outcome_of, |_| audit::DONE.to_owned());
            let subsystem = without_root(&path).split('/').next().unwrap_or_default();
            self.tree.record_command(&path, &format!("{subsystem} {name}"), &Origin { by, reason }, &outcome);
        }
        entry.close(done)
    }

    /// Authorises the caller, who needs the role operator for every command that does more than it `reads`,
    /// and opens the audit entry. Refused callers are recorded, too, as far as their number and the disk
    /// allow; without an entry nothing is executed. The entry of a permitted command that only `reads` writes
    /// no line.
    fn authorise(&self, caller: &Caller, path: &str, verb: &str, reads: bool) -> Result<Entry<'_>, ApiError> {
        let mut record = Record {
            at: audit::now(),
            who: caller.who.clone(),
            role: caller.role.name(),
            path: sanitize(path),
            verb: sanitize(verb),
            reason: String::new(),
            args: None,
            // Written if the handler is dropped before the command ends.
            outcome: "abandoned: the client disconnected before the response; see the state of the child"
                .to_owned(),
            before: None,
            after: None,
        };
        if !reads && caller.role < Role::Operator {
            self.metrics.forbidden.add(1);
            let role = caller.role.name();
            let message = format!("the role {role} allows verbs that only read: use an operator's token");
            let refused = ApiError::new(ErrorKind::Forbidden, message);
            record.outcome = outcome_of(&refused);
            self.metrics.audit_lines.add(self.state.audit.refuse(record));
            return Err(refused);
        }
        let line = if reads { Ok(None) } else { self.state.audit.reserve().map(Some) };
        match line {
            Ok(line) => Ok(Entry { record, line, metrics: &self.metrics }),
            Err(problem) => {
                self.metrics.unaudited.add(1);
                tracing::error!(problem, "command refused");
                Err(ApiError::new(ErrorKind::Unavailable, problem))
            }
        }
    }

    async fn execute(
        &self,
        entry: &mut Entry<'_>,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<CommandArgs, ApiError>>,
    ) -> Result<(StatusCode, CommandResponse), ApiError> {
        let verb = Command::parse(verb).ok_or_else(|| unknown(verb))?;
        let args = args.await?;
        if args.reason.len() > REASON_LIMIT {
            let message = format!("the reason is longer than {REASON_LIMIT} bytes: shorten it");
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        }
        let verb = match (verb, &args.until) {
            (Command::Pause(_), until) => Command::Pause(Until::pause(until.as_ref())),
            (verb, None) => verb,
            (verb, Some(_)) => {
                let message = format!("`until` is the end of a pause, and {} has none", verb.name());
                return Err(ApiError::new(ErrorKind::BadRequest, message));
            }
        };
        entry.record.args = args.until.map(|until| json!({ "until": until }));
        let origin = Origin { by: caller.who.clone(), reason: sanitize(args.reason.trim()) };
        entry.record.reason.clone_from(&origin.reason);
        let state = || self.tree.child(path).map(|child| child.state());
        let before = state();
        entry.record.before = before.map(|state| state.name().to_owned());
        if verb == Command::Stop && self.includes_endpoint(path) {
            let message =
                format!("stopping `{path}` would stop this endpoint for good: stop the process instead");
            return Err(ApiError::new(ErrorKind::Refused, message));
        }
        let name = |state: Option<State>| state.map_or("unknown", State::name).to_owned();
        let answer = |before: Option<State>, after: Option<State>| CommandResponse {
            path: path.to_owned(),
            verb: verb.name().to_owned(),
            before: name(before),
            after: name(after),
            note: None,
        };
        let (status, done) = tokio::select! {
            biased;
            outcome = self.tree.command(path, verb, &origin) => match outcome {
                Ok(done) => {
                    let note = done.acts_later.then(|| ACTS_LATER.to_owned());
                    (StatusCode::OK, CommandResponse { note, ..answer(Some(done.before), Some(done.after)) })
                }
                Err(error) => {
                    entry.record.after = state().map(|state| state.name().to_owned());
                    return Err(error.into());
                }
            },
            // The endpoint stops now, so it responds before the command ends.
            () = self.stop.cancelled() => (StatusCode::ACCEPTED, answer(before, state())),
        };
        entry.record.after = Some(done.after.clone());
        Ok((status, done))
    }

    async fn execute_console(
        &self,
        entry: &mut Entry<'_>,
        path: &str,
        verb: &ConsoleVerb,
        args: impl Future<Output = Result<Value, ApiError>>,
    ) -> Result<Value, ApiError> {
        let args = args.await?;
        if let Some(reason) = args.get("reason").and_then(Value::as_str) {
            entry.record.reason = sanitize(reason.trim());
        }
        entry.record.args = Some(audit::bounded(&args));
        let answer = verb.call(args).await.map_err(|error| of_console(error, path, verb.name()))??;
        // Such a pause gives no event.
        let (record, mut pauses) = (&entry.record, self.state.console_pauses.lock());
        match verb.effect() {
            Effect::Pauses => {
                let reason = if record.reason.is_empty() { "no reason given" } else { &record.reason };
                pauses.insert(record.path.clone(), format!("pause by {}: {reason}", record.who));
            }
            Effect::Resumes => _ = pauses.remove(&record.path),
            Effect::Reads | Effect::Changes | Effect::Delivers => {}
        }
        Ok(answer)
    }

    /// True if the child at `path` is the endpoint or a supervisor above it.
    fn includes_endpoint(&self, path: &str) -> bool {
        is_in_branch(&self.own_path, path)
    }
}

/// An open audit entry. It is written on drop, too, when the client disconnects and the handler is dropped.
struct Entry<'a> {
    record: Record,
    /// `None` for a verb that changes nothing, and once the line is written.
    line: Option<ReservedLine>,
    metrics: &'a AdminMetrics,
}

impl Entry<'_> {
    fn close<T>(mut self, done: Result<T, ApiError>) -> Result<T, ApiError> {
        self.record.outcome = match &done {
            Ok(_) => audit::DONE.to_owned(),
            Err(error) => outcome_of(error),
        };
        match (self.write(), done) {
            (Err(problem), Ok(_)) => {
                let message =
                    format!("the command was executed, but not recorded in the audit log: {problem}");
                Err(ApiError::new(ErrorKind::Unavailable, message))
            }
            (_, done) => done,
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let Some(line) = self.line.take() else {
            return Ok(());
        };
        let written = line.write(&self.record);
        match &written {
            Ok(in_file) => self.metrics.audit_lines.add(u64::from(*in_file)),
            Err(error) => tracing::error!(%error, "cannot write a line of the audit log"),
        }
        written.map(drop)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        // `write` logs an error.
        let _ = self.write();
    }
}

fn outcome_of(ApiError(body): &ApiError) -> String {
    sanitize(format!("{}: {}", body.error.name(), body.message))
}

/// Converts the error of a verb `name` of the console at `path`.
fn of_console(error: ConsoleCallError, path: &str, name: &str) -> ApiError {
    if let ConsoleCallError::Verb(error) = error {
        return error.into();
    }
    let ApiError(mut body) = error.into();
    body.message = format!("`{}` of `{path}`: {}", sanitize(name), body.message);
    ApiError(body)
}

fn unknown(verb: &str) -> ApiError {
    let known: Vec<_> = Command::ALL.into_iter().filter(|verb| !verb.is_chaos()).map(Command::name).collect();
    ApiError::new(
        ErrorKind::NotFound,
        format!("unknown verb `{}`: the verbs are {}", sanitize(verb), known.join(", ")),
    )
}
