//! The one way in for whatever changes something: commands to the tree and verbs of consoles. It asks whether the caller
//! may, carries it out, and notes it; nothing is carried out that cannot be noted.

use orchestrator_supervise::{Command, ConsoleRequest, Origin, State, StopToken, Tree, sanitize};
use serde_json::Value;

use crate::{
    api_error::ApiError,
    audit::{self, Audit, Place, Record},
    role::{Caller, Role},
    tally::Tally,
};
use orchestrator_subsystem::wire::{CommandAnswer, CommandArgs, ErrorKind, REASON_LIMIT};

/// The choke point of one incarnation of the endpoint.
#[derive(Debug)]
pub(crate) struct Steering<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) audit: &'a Audit,
    pub(crate) tally: &'a Tally,
    /// The endpoint's own path.
    pub(crate) own_path: &'a str,
    /// Cancelled when the endpoint itself must go.
    pub(crate) stop: &'a StopToken,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) enum Carried {
    Out(CommandAnswer),
    /// Accepted, but the endpoint goes before its effect shows.
    Under(CommandAnswer),
}

impl Steering<'_> {
    /// Carries out a verb of the tree; `args` are read once the caller is known to be allowed to give them.
    pub(crate) async fn command(
        &self,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<CommandArgs, ApiError>>,
    ) -> Result<Carried, ApiError> {
        // An unknown path goes through the tree as well: it knows the words for it.
        let path = self.tree.resolve(path).unwrap_or_else(|| path.to_owned());
        let mut entry = self.admit(caller, &path, verb)?;
        let done = self.carry_out(&mut entry, caller, &path, verb, args).await;
        entry.close(done)
    }

    /// Asks a child's console; `args` as above.
    pub(crate) async fn console(
        &self,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<Value, ApiError>>,
    ) -> Result<Value, ApiError> {
        let path = self.tree.resolve(path).unwrap_or_else(|| path.to_owned());
        let mut entry = self.admit(caller, &path, verb)?;
        let done = self.ask(&mut entry, &path, verb, args).await;
        entry.close(done)
    }

    /// Opens the entry of whoever may do this; whoever may not is noted as well.
    fn admit(&self, caller: &Caller, path: &str, verb: &str) -> Result<Entry<'_>, ApiError> {
        let place = self.audit.reserve();
        let record = Record {
            at: audit::now(),
            who: caller.who.clone(),
            role: caller.role.name(),
            path: sanitize(path),
            verb: sanitize(verb),
            reason: String::new(),
            args: None,
            // What stands there when nobody lives to say more.
            outcome: "abandoned: the client left before the answer; the child's state shows what came of it"
                .to_owned(),
            before: None,
            after: None,
        };
        if caller.role < Role::Operator {
            self.tally.forbidden.add(1);
            let role = caller.role.name();
            let message = format!("the role {role} may look and not command: use an operator's token");
            let refused = Err(ApiError::new(ErrorKind::Forbidden, message));
            // Nothing is done, so it is refused all the same when it cannot be noted.
            return match place {
                Ok(place) => Entry { record, place: Some(place), tally: self.tally }.close(refused),
                Err(_) => refused,
            };
        }
        match place {
            Ok(place) => Ok(Entry { record, place: Some(place), tally: self.tally }),
            Err(problem) => {
                self.tally.unaudited.add(1);
                tracing::error!(problem, "a command was refused");
                Err(ApiError::new(ErrorKind::Unavailable, problem))
            }
        }
    }

    async fn carry_out(
        &self,
        entry: &mut Entry<'_>,
        caller: &Caller,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<CommandArgs, ApiError>>,
    ) -> Result<Carried, ApiError> {
        let verb = Command::parse(verb).ok_or_else(|| unknown(verb))?;
        let args = args.await?;
        if args.reason.len() > REASON_LIMIT {
            let message = format!("the reason is longer than {REASON_LIMIT} bytes: be brief");
            return Err(ApiError::new(ErrorKind::BadRequest, message));
        }
        let origin = Origin { by: caller.who.clone(), reason: sanitize(args.reason.trim()) };
        entry.record.reason.clone_from(&origin.reason);
        let state = || self.tree.vitals(path).map(|vitals| vitals.state());
        let before = state();
        entry.record.before = before.map(|state| state.name().to_owned());
        if verb == Command::Stop && self.carries_endpoint(path) {
            let message =
                format!("stopping `{path}` would cut off this endpoint for good: stop the process instead");
            return Err(ApiError::new(ErrorKind::Refused, message));
        }
        let name = |state: Option<State>| state.map_or("unknown", State::name).to_owned();
        let answer = |before: Option<State>, after: Option<State>| CommandAnswer {
            path: path.to_owned(),
            verb: verb.name().to_owned(),
            before: name(before),
            after: name(after),
        };
        let carried = tokio::select! {
            biased;
            outcome = self.tree.command(path, verb, &origin) => match outcome {
                Ok(done) => Carried::Out(answer(Some(done.before), Some(done.after))),
                Err(error) => {
                    entry.record.after = state().map(|state| state.name().to_owned());
                    return Err(error.into());
                }
            },
            // The command, or the end of the process, takes the endpoint along: answer while that is possible.
            () = self.stop.cancelled() => Carried::Under(answer(before, state())),
        };
        let (Carried::Out(done) | Carried::Under(done)) = &carried;
        entry.record.after = Some(done.after.clone());
        Ok(carried)
    }

    async fn ask(
        &self,
        entry: &mut Entry<'_>,
        path: &str,
        verb: &str,
        args: impl Future<Output = Result<Value, ApiError>>,
    ) -> Result<Value, ApiError> {
        let args = args.await?;
        if let Some(reason) = args.get("reason").and_then(Value::as_str) {
            entry.record.reason = sanitize(reason.trim());
        }
        entry.record.args = Some(audit::bounded(&args));
        let request = ConsoleRequest { verb: verb.to_owned(), args };
        let reply = self.tree.console(path, request).await.map_err(|error| {
            let mut answer = ApiError::from(error);
            answer.0.message = format!("`{verb}` of `{path}`: {}", answer.0.message);
            answer
        })?;
        Ok(reply?)
    }

    /// Is the child at `path` the endpoint itself, or a supervisor above it?
    fn carries_endpoint(&self, path: &str) -> bool {
        let rest = self.own_path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// A line in the making. It is written whatever happens: also when the client leaves and the handler is dropped.
struct Entry<'a> {
    record: Record,
    place: Option<Place>,
    tally: &'a Tally,
}

impl Entry<'_> {
    fn close<T>(mut self, done: Result<T, ApiError>) -> Result<T, ApiError> {
        self.record.outcome = match &done {
            Ok(_) => audit::DONE.to_owned(),
            Err(ApiError(body)) => sanitize(format!("{}: {}", body.error.name(), body.message)),
        };
        match (self.write(), done) {
            (Err(problem), Ok(_)) => {
                let message = format!("it was carried out, but not noted in the audit log: {problem}");
                Err(ApiError::new(ErrorKind::Unavailable, message))
            }
            (_, done) => done,
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let Some(place) = self.place.take() else {
            return Ok(());
        };
        let written = place.write(&self.record);
        match &written {
            Ok(in_file) => self.tally.audit_lines.add(u64::from(*in_file)),
            Err(error) => tracing::error!(%error, "a line of the audit log was lost"),
        }
        written.map(drop)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        // An error is in the log, and nobody is left to be told.
        let _ = self.write();
    }
}

fn unknown(verb: &str) -> ApiError {
    let known: Vec<_> = Command::ALL.into_iter().filter(|verb| !verb.is_chaos()).map(Command::name).collect();
    ApiError::new(
        ErrorKind::NotFound,
        format!("no verb `{}`: there are {}", sanitize(verb), known.join(", ")),
    )
}
