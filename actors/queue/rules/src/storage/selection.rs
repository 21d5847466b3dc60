//! Selection of jobs by operators: patterns of attribute paths, and filters of the last hand-outs.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LogRow, glob::Glob};

/// Maximum length of a pattern, in bytes: a match takes a step for each 64 characters of it and each one of
/// the text.
const PATTERN_BYTES_MAX: usize = 1_000;

/// Pattern of attribute paths: `*` stands for any characters, `?` for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    glob: Glob,
}

impl Pattern {
    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Matches the whole attribute path.
    pub fn matches(&self, attr_path: &str) -> bool {
        self.glob.matches(attr_path)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes: shorten it"));
        }
        Ok(Self { glob: Glob::new(&text), text })
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

/// State of a job since its last hand-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// The last attempt ended with an exit code other than 0
    Failed,
    /// No worker reported the end of the last attempt, however long ago it began
    InFlight,
}

/// Filter of jobs by the last hand-out of their attribute paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// Only jobs in this state.
    pub state: JobState,
    /// Only these attribute paths.
    pub pattern: Option<Pattern>,
    /// Only this exit code, which jobs in flight do not have.
    pub exit_code: Option<i64>,
    /// Only jobs handed out at this time or later, in unix seconds.
    pub since: Option<i64>,
    /// Only jobs handed out at this time or earlier, in unix seconds.
    pub until: Option<i64>,
}

impl JobFilter {
    /// True for the path whose last hand-out is `log`.
    pub fn selects(&self, attr_path: &str, log: &LogRow) -> bool {
        let has_state = match self.state {
            JobState::Failed => log.exit_code.is_some_and(|code| code != 0),
            JobState::InFlight => log.finished.is_none(),
        };
        has_state
            && self.exit_code.is_none_or(|code| log.exit_code == Some(code))
            && self.since.is_none_or(|since| log.started >= since)
            && self.until.is_none_or(|until| log.started <= until)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(attr_path))
    }
}

/// Outcome of [`Operation::RequeueSlice`](super::Operation::RequeueSlice).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequeuedSlice {
    /// Number of jobs made available again, or whose hold was ended.
    pub jobs: u64,
    /// Where the next slice begins; None at the end.
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(state: JobState) -> JobFilter {
        JobFilter { state, pattern: None, exit_code: None, since: None, until: None }
    }

    #[test]
    fn a_filter_selects_by_state_code_time_and_path() {
        let failed = LogRow { started: 10, finished: Some(20), exit_code: Some(3) };
        let done = LogRow { exit_code: Some(0), ..failed };
        let running = LogRow { started: 10, finished: None, exit_code: None };
        let requeued = LogRow { exit_code: None, ..failed };
        let states =
            |filter: &JobFilter| [failed, done, running, requeued].map(|log| filter.selects("a.b", &log));
        assert_eq!(states(&all(JobState::Failed)), [true, false, false, false]);
        assert_eq!(states(&all(JobState::InFlight)), [false, false, true, false]);
        let with = |filter: JobFilter| filter.selects("a.b", &failed);
        for (selected, filter) in [
            (true, JobFilter { exit_code: Some(3), ..all(JobState::Failed) }),
            (false, JobFilter { exit_code: Some(4), ..all(JobState::Failed) }),
            (true, JobFilter { since: Some(10), until: Some(10), ..all(JobState::Failed) }),
            (false, JobFilter { since: Some(11), ..all(JobState::Failed) }),
            (false, JobFilter { until: Some(9), ..all(JobState::Failed) }),
            (true, JobFilter { pattern: "a.*".parse().ok(), ..all(JobState::Failed) }),
            (false, JobFilter { pattern: "b.*".parse().ok(), ..all(JobState::Failed) }),
        ] {
            assert_eq!(with(filter.clone()), selected, "{filter:?}");
        }
        assert!("x".repeat(1_001).parse::<Pattern>().unwrap_err().contains("shorten it"));
    }
}
