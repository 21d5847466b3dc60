//! The reload of the configuration as the endpoint sees it: the request to read its own files again, and the
//! outcome that `why` and a metric show.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
};

use orchestrator_observe::now_ms;
use orchestrator_subsystem::wire::Cause;
use orchestrator_text::sanitize;
use parking_lot::Mutex;

/// Most errors of a configuration, or changed keys, that are named.
const NAMED_MAX: usize = 4;

/// Requests and outcomes of reloads. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Reload(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    problem: Mutex<Option<Problem>>,
}

/// Reason why the running configuration is not that of the files.
#[derive(Debug)]
struct Problem {
    since_ms: u64,
    kind: &'static str,
    text: String,
    evidence: Vec<String>,
    help: &'static str,
}

impl Reload {
    /// Requests that the next HTTP request reads the file with the tokens again.
    pub fn request(&self) {
        self.0.requested.store(true, Release);
    }

    /// Reports that the configuration was read again. Changes of `pending`, dotted keys, need a restart.
    pub fn succeeded(&self, pending: &[String]) {
        let problem = (!pending.is_empty()).then(|| Problem {
            since_ms: now_ms(),
            kind: "restart_needed",
            text: sanitize(format!("changed keys need a restart: {}", named(pending))),
            evidence: vec!["their former values stay in effect until then".to_owned()],
            help: "systemctl restart orchestrator",
        });
        *self.0.problem.lock() = problem;
    }

    /// Reports that the configuration was refused and nothing changed. `error` is a reason, or a title and a
    /// line for each mistake with file, line and key.
    pub fn failed(&self, error: &str) {
        let lines: Vec<_> =
            error.lines().map(str::trim).filter(|line| !line.is_empty()).map(sanitize).collect();
        let mut mistakes = lines.iter().skip(usize::from(lines.len() > 1));
        let first = mistakes.next().map_or("no reason given", String::as_str);
        let kept = "the configuration of before stays in effect".to_owned();
        let problem = Problem {
            since_ms: now_ms(),
            kind: "reload_failed",
            text: sanitize(format!("the configuration was not reloaded: {first}")),
            evidence: mistakes.take(NAMED_MAX).cloned().chain([kept]).collect(),
            help: "orchestrator check --config FILE; once it succeeds, systemctl reload orchestrator",
        };
        *self.0.problem.lock() = Some(problem);
    }

    /// True once after each request.
    pub(crate) fn take(&self) -> bool {
        self.0.requested.swap(false, AcqRel)
    }

    /// False if the last reload failed.
    pub(crate) fn is_successful(&self) -> bool {
        self.0.problem.lock().as_ref().is_none_or(|problem| problem.kind != "reload_failed")
    }

    /// The cause at the root, whose path is `path`, if the running configuration is not that of the files.
    pub(crate) fn cause(&self, path: &str) -> Option<Cause> {
        let problem = self.0.problem.lock();
        let Problem { since_ms, kind, text, evidence, help } = problem.as_ref()?;
        Some(Cause {
            kind: (*kind).to_owned(),
            path: path.to_owned(),
            text: text.clone(),
            since_ms: Some(*since_ms),
            evidence: evidence.clone(),
            help: (*help).to_owned(),
            affects: Vec::new(),
            routine: false,
        })
    }
}

/// Joins the first texts, with the number of the others.
fn named(texts: &[String]) -> String {
    let shown = texts.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        left => format!("{shown} and {left} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reload_is_successful_until_one_fails_and_pending_keys_are_named() {
        let reload = Reload::default();
        let state = || (reload.is_successful(), reload.cause("o").map(|cause| (cause.text, cause.evidence)));
        assert_eq!(state(), (true, None));
        reload.failed("the configuration has 2 errors\n  a.toml:3: queue.socket: first\n\n  a.toml:4: queue.x: second\u{1b}\n");
        let (successful, cause) = state();
        let (text, evidence) = cause.expect("a cause");
        assert_eq!(
            (successful, text.as_str()),
            (false, "the configuration was not reloaded: a.toml:3: queue.socket: first")
        );
        assert_eq!(evidence[0], r"a.toml:4: queue.x: second\u{1b}");
        let keys: Vec<_> = (1..=6).map(|number| format!("queue.key{number}")).collect();
        reload.succeeded(&keys);
        let (text, _) = state().1.expect("a cause");
        assert_eq!(
            text,
            "changed keys need a restart: queue.key1, queue.key2, queue.key3, queue.key4 and 2 more"
        );
        reload.succeeded(&[]);
        assert_eq!(state(), (true, None));
    }
}
