//! Options that the jobs of a producer share, and the queue and the type of each job (CONTRACT SP02, SP03).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Longest reservation that Faktory accepts, in seconds.
const RESERVE_MAX_SECS: u32 = 86_400;
/// Upper bound of the serialized custom fields, in bytes. Each job has them.
const CUSTOM_MAX: usize = 4_096;
/// Custom field with the key of the pair.
const KEY: &str = "key";

/// Options that all jobs of a producer share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOptions {
    /// Queue name: letters, digits, `.`, `_` and `-`.
    pub queue: String,
    /// Job type that workers register.
    pub jobtype: String,
    /// Queues of the jobs with these TCNs, in place of `queue`.
    pub queues: BTreeMap<i64, String>,
    /// Types of the jobs with these TCNs, in place of `jobtype`.
    pub jobtypes: BTreeMap<i64, String>,
    /// Retries after a failure; 0 drops the job, -1 makes it dead at once. Always sent, because Faktory
    /// applies an omitted value of one client to later jobs.
    pub retry: i32,
    /// Time a worker has for the job, in seconds.
    pub reserve_for_secs: u32,
    /// Lines of a failure's backtrace that Faktory keeps.
    pub backtrace: u32,
    /// Fields of `custom` besides the key of the pair.
    pub custom: Map<String, Value>,
}

impl Default for JobOptions {
    /// As in the original.
    fn default() -> Self {
        Self {
            queue: "arborescent".to_owned(),
            jobtype: "arbor_job".to_owned(),
            queues: BTreeMap::new(),
            jobtypes: BTreeMap::new(),
            retry: 25,
            reserve_for_secs: 1800,
            backtrace: 5,
            custom: Map::new(),
        }
    }
}

impl JobOptions {
    /// Returns all queues that jobs can get.
    pub fn all_queues(&self) -> BTreeSet<String> {
        self.queues.values().chain([&self.queue]).cloned().collect()
    }

    /// Queue and type of the jobs with this TCN.
    pub(super) fn of_tcn(&self, tcn: i64) -> (&str, &str) {
        let queue = self.queues.get(&tcn).unwrap_or(&self.queue);
        (queue, self.jobtypes.get(&tcn).unwrap_or(&self.jobtype))
    }

    /// TCNs with a queue or a type of their own.
    pub(super) fn special_tcns(&self) -> BTreeSet<i64> {
        self.queues.keys().chain(self.jobtypes.keys()).copied().collect()
    }

    /// Checks the options.
    ///
    /// # Errors
    /// Faktory would refuse such jobs. The text begins with `key = value`.
    pub fn check(&self) -> Result<(), String> {
        let legal = |name: &str| {
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._-".contains(&c))
        };
        let queues = self.queues.iter().map(|(tcn, queue)| (format!("queues.{tcn}"), queue));
        for (key, queue) in queues.chain([("queue".to_owned(), &self.queue)]) {
            if !legal(queue) {
                return Err(format!("{key} = {queue:?}: write letters, digits, `.`, `_` and `-` only"));
            }
        }
        let jobtypes = self.jobtypes.iter().map(|(tcn, jobtype)| (format!("job_types.{tcn}"), jobtype));
        for (key, jobtype) in jobtypes.chain([("job_type".to_owned(), &self.jobtype)]) {
            if jobtype.is_empty() {
                return Err(format!("{key} = \"\": a job type must not be empty"));
            }
        }
        if self.reserve_for_secs > RESERVE_MAX_SECS {
            let secs = self.reserve_for_secs;
            return Err(format!("reserve_for_secs = {secs}: Faktory accepts at most {RESERVE_MAX_SECS} s"));
        }
        if let Some(name) = self.custom.keys().find(|name| *name == KEY || name.starts_with('_')) {
            return Err(format!(
                "custom.{name} = ..: the producer sets `{KEY}`, and Faktory reserves names with `_`: rename it"
            ));
        }
        if self.custom_fields().len() > CUSTOM_MAX {
            return Err(format!("custom = ..: its JSON has more than {CUSTOM_MAX} bytes: shorten it"));
        }
        Ok(())
    }

    /// JSON without braces.
    pub(super) fn custom_fields(&self) -> String {
        let object = Value::Object(self.custom.clone()).to_string();
        object.trim_start_matches('{').strip_suffix('}').unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_that_faktory_would_refuse_are_refused() {
        let options = JobOptions::default();
        let custom = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
        for (wrong, said) in [
            (JobOptions { queue: String::new(), ..options.clone() }, "queue = \"\""),
            (JobOptions { queue: "a b".to_owned(), ..options.clone() }, "queue = \"a b\""),
            (JobOptions { queues: [(6, "a b".to_owned())].into(), ..options.clone() }, "queues.6 = \"a b\""),
            (JobOptions { jobtype: String::new(), ..options.clone() }, "job_type = \"\""),
            (JobOptions { jobtypes: [(-1, String::new())].into(), ..options.clone() }, "job_types.-1 = \"\""),
            (JobOptions { reserve_for_secs: 86_401, ..options.clone() }, "reserve_for_secs = 86401"),
            (JobOptions { custom: custom("key", json!(1)), ..options.clone() }, "custom.key = .."),
            (JobOptions { custom: custom("_at", json!(1)), ..options.clone() }, "custom._at = .."),
            (JobOptions { custom: custom("x", json!("x".repeat(4_096))), ..options.clone() }, "custom = .."),
        ] {
            let text = wrong.check().unwrap_err();
            assert!(text.starts_with(said), "{text}");
        }
        let legal =
            JobOptions { reserve_for_secs: 86_400, custom: custom("x", json!({"y": [1]})), ..options };
        assert_eq!(legal.check(), Ok(()));
    }

    #[test]
    fn a_tcn_may_have_its_own_queue_and_type() {
        let options = JobOptions {
            queues: [(6, "heavy".to_owned()), (7, "heavy".to_owned())].into(),
            jobtypes: [(7, "long_job".to_owned())].into(),
            ..JobOptions::default()
        };
        assert_eq!(options.of_tcn(5), ("arborescent", "arbor_job"));
        assert_eq!(options.of_tcn(6), ("heavy", "arbor_job"));
        assert_eq!(options.of_tcn(7), ("heavy", "long_job"));
        assert_eq!(options.special_tcns(), [6, 7].into());
        assert_eq!(options.all_queues(), ["arborescent".to_owned(), "heavy".to_owned()].into());
    }
}
