//! Key `on_finished`: the job of the queue for each mapping that ended whole (CONTRACT IS05).

use std::path::PathBuf;

use orchestrator_exchange::{JobId, JobOffered, payload_text};
use orchestrator_supervise::ChildSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const WORDS: &str = "{uuid}, {name}, {dump_path} or {events}";

/// Job of the queue for each mapping that ended whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OnFinished {
    /// Attribute path of the job, with the word {uuid}, and perhaps {name}.
    #[schemars(length(min = 1))]
    pub attr_path: String,
    /// Text behind it, with the words {uuid}, {name}, {dump_path} and {events}.
    pub payload: String,
    /// Directory of the records of mappings, in a folder for each ingester.
    #[schemars(length(min = 1))]
    pub records: PathBuf,
}

impl Default for OnFinished {
    fn default() -> Self {
        Self {
            attr_path: "{uuid}".to_owned(),
            payload: "{dump_path} {events}".to_owned(),
            records: "var/ingester".into(),
        }
    }
}

/// A mapping that the controller has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedMapping {
    pub(crate) uuid: Uuid,
    /// Dump file of its events.
    pub(crate) dump: Option<String>,
    /// Number of its events that were sent to workers.
    pub(crate) events: u64,
    /// False if its scan was interrupted.
    pub(crate) is_whole: bool,
}

impl OnFinished {
    /// Directory of the records of the ingester `name`.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.records.join(ChildSpec::id_of(name))
    }

    /// Problems that the schema cannot express, as key and text.
    pub(crate) fn check(&self) -> Vec<(&'static str, &str, String)> {
        let mut problems = Vec::new();
        for (key, text) in [("attr_path", &self.attr_path), ("payload", &self.payload)] {
            if let Err(problem) = fill(text, &|word| is_word(word).then(String::new)) {
                problems.push((key, text.as_str(), problem));
            }
        }
        if !self.attr_path.contains("{uuid}") {
            let text = "jobs must differ: write {uuid} in it".to_owned();
            problems.push(("attr_path", &self.attr_path, text));
        }
        problems
    }

    pub(crate) fn job(&self, name: &str, mapping: &FinishedMapping) -> JobOffered {
        let value = |word: &str| {
            Some(match word {
                "uuid" => mapping.uuid.to_string(),
                "name" => name.to_owned(),
                "dump_path" => mapping.dump.clone().unwrap_or_default(),
                "events" => mapping.events.to_string(),
                _ => return None,
            })
        };
        // The check has accepted both.
        let text = |template: &str| fill(template, &value).unwrap_or_default();
        JobOffered {
            former_claim: None,
            job: job_id(name, &text(&self.attr_path), mapping.uuid),
            payload: payload_text(&text(&self.payload)),
        }
    }
}

/// The claim is the UUID, so a mapping has its job once.
fn job_id(name: &str, attr_path: &str, uuid: Uuid) -> JobId {
    JobId::new(format!("ingester.{name}"), attr_path, uuid.to_string())
}

fn is_word(word: &str) -> bool {
    ["uuid", "name", "dump_path", "events"].contains(&word)
}

/// Replaces `{word}` by its value.
fn fill(template: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((plain, behind)) = rest.split_once('{') {
        let (word, behind) =
            behind.split_once('}').ok_or_else(|| format!("a brace is open: write {WORDS}"))?;
        text.push_str(plain);
        text.push_str(&value(word).ok_or_else(|| format!("{{{word}}} is not known: write {WORDS}"))?);
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_values_of_its_mapping() {
        let mapping = FinishedMapping {
            uuid: Uuid::from_u128(7),
            dump: Some("/data/a b.cbors".to_owned()),
            events: 12,
            is_whole: true,
        };
        let job = OnFinished::default().job("eiger", &mapping);
        assert_eq!(job.job.owner(), "ingester.eiger");
        assert_eq!(job.job.attr_path(), "00000000-0000-0000-0000-000000000007");
        assert_eq!(job.payload, "/data/a b.cbors 12");
        let named = OnFinished { attr_path: "{name} {uuid}".to_owned(), ..OnFinished::default() };
        let undumped = FinishedMapping { dump: None, ..mapping };
        let job = named.job("eiger", &undumped);
        assert_eq!(
            (job.job.attr_path(), &*job.payload),
            ("eiger%2000000000-0000-0000-0000-000000000007", " 12")
        );
    }

    #[test]
    fn unknown_words_and_equal_paths_are_refused() {
        let with = |attr_path: &str, payload: &str| OnFinished {
            attr_path: attr_path.to_owned(),
            payload: payload.to_owned(),
            ..OnFinished::default()
        };
        assert_eq!(OnFinished::default().check(), []);
        for (config, key, begins) in [
            (with("{name}", ""), "attr_path", "jobs must differ"),
            (with("{uuid}", "{file}"), "payload", "{file} is not known"),
            (with("{uuid}", "{uuid"), "payload", "a brace is open"),
        ] {
            let problems = config.check();
            assert_eq!((problems.len(), problems[0].0), (1, key));
            assert!(problems[0].2.starts_with(begins), "{problems:?}");
        }
    }
}
