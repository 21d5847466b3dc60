//! Reasons why no job is handed out, reported to `GET /v1/why`.

use std::{borrow::Cow, path::Path};

use jiff::Timestamp;
use orchestrator_queue_rules::{
    storage::{HeldJobs, Limit, StorageError, StorageErrorKind},
    unserved::Unserved,
};
use orchestrator_supervise::Vitals;

/// Reports that all waiting jobs are held.
pub(super) fn report_held(vitals: &Vitals, held: &HeldJobs, hold_secs: u32) {
    let HeldJobs { attr_path, started, until, jobs } = held;
    let text = format!("all waiting jobs are held, the earliest until {until}");
    let wait = jobs_wait(*jobs);
    let evidence = [
        format!("{wait}, and a worker has the attribute path of each"),
        format!("{attr_path} was handed out at {started}, and its worker has not sent DONE"),
        format!("queue.hold_secs = {hold_secs}"),
    ];
    vitals.set_routine(
        "jobs_held",
        text,
        &evidence,
        format!("orchestrator queue requeue {}", quoted(attr_path)),
    );
}

/// Reports that the limits of all waiting jobs with a free attribute path are reached.
pub(super) fn report_limited(vitals: &Vitals, attr_path: &str, limit: &Limit) {
    let pattern =
        |key: &str, value: &Option<String>| value.as_ref().map(|value| format!("{key} = {value:?}, "));
    let patterns = [pattern("match", &limit.attr_path), pattern("fetcher", &limit.fetcher)];
    let patterns: String = patterns.into_iter().flatten().collect();
    let evidence = [
        format!("[[queue.limit]] {patterns}in_flight = {}", limit.in_flight),
        format!("{attr_path} waits for the end of a job with the same limit"),
    ];
    let text = "all waiting jobs have limits that are reached".to_owned();
    vitals.set_routine("jobs_limited", text, &evidence, "orchestrator queue in-flight");
}

fn jobs_wait(jobs: u64) -> String {
    match jobs {
        1 => "1 job waits".to_owned(),
        HeldJobs::COUNTED_MAX => format!("at least {jobs} jobs wait"),
        _ => format!("{jobs} jobs wait"),
    }
}

/// Reports that jobs wait and nobody works.
pub(super) fn report_unserved(vitals: &Vitals, unserved: &Unserved, socket: &Path, is_shared: bool) {
    let Unserved { jobs, free, in_flight, last_request } = *unserved;
    let wait = jobs_wait(jobs);
    let since = match last_request.map(Timestamp::from_second) {
        Some(Ok(at)) => at.to_string(),
        _ => "the start".to_owned(),
    };
    let text = format!(
        "{wait}, no worker has asked since {since} ({in_flight} in flight, limits leave {free} free)"
    );
    let mut evidence = Vec::new();
    if in_flight > 0 {
        evidence.push(format!(
            "the {in_flight} jobs in flight take longer than others did, or their workers are gone"
        ));
    }
    let mut help = format!("start workers at {}", socket.display());
    if is_shared {
        evidence.push("workers of other instances have not asked either".to_owned());
        help.push_str(", or at another instance");
    }
    vitals.set_blocker_with("no_worker", text, &evidence, help);
}

/// Reports a lack of space: with the free bytes of the file system, or in the server's words. Ignores other
/// errors.
pub(super) fn report_full(vitals: &Vitals, error: &StorageError) {
    match (&error.kind, &error.file, &error.source) {
        (StorageErrorKind::Full, Some(path), _) => {
            orchestrator_edge::report_full(vitals, path, error.to_string());
        }
        (StorageErrorKind::Full, None, Some(refused)) => {
            let help = "free space for the server's data directory and tablespaces, then look at its log";
            vitals.set_fault("disk_full", "disk of the PostgreSQL server", refused.to_string(), &[], help);
        }
        _ => {}
    }
}

/// Quotes a word for a shell, because attribute paths come from files.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@/".contains(&byte);
    if !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("-- '{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use orchestrator_supervise::{Root, Strategy, SupervisorSpec};

    use super::*;

    #[test]
    fn the_number_of_held_jobs_is_exact_or_a_minimum() {
        actix_rt::System::new().block_on(async {
            let mut root = Root::start("test", SupervisorSpec::new(Strategy::OneForOne)).await.unwrap();
            let vitals = root.tree().vitals("test").unwrap();
            for (jobs, text) in [(999, "999 jobs wait, "), (1_000, "at least 1000 jobs wait, ")] {
                let [attr_path, started, until] = ["a", "then", "later"].map(str::to_owned);
                report_held(&vitals, &HeldJobs { attr_path, started, until, jobs }, 60);
                let evidence = vitals.blocker().unwrap().evidence[0].clone();
                assert!(evidence.starts_with(text), "{evidence}");
            }
            root.stop().await;
        });
    }

    #[test]
    fn words_that_a_shell_would_interpret_are_quoted() {
        assert_eq!(quoted("python3Packages.requests"), "python3Packages.requests");
        assert_eq!(quoted("a;rm"), "-- 'a;rm'");
        assert_eq!(quoted("it's"), r"-- 'it'\''s'");
        assert_eq!(quoted("--help"), "-- '--help'");
        assert_eq!(quoted(""), "-- ''");
    }
}
