//! Records of mappings in files, one for each, so that a mapping has one job over kills of the process.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File},
    io::{self, BufReader, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use orchestrator_edge::read_regular;
use orchestrator_exchange::{JobId, JobOffered};
use orchestrator_text::sanitize;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Mappings that are remembered after their end: the controller may repeat their last update after a restart.
const KEPT_MAX: usize = 64;
/// End of a record's file name.
const EXTENSION: &str = "json";

/// Progress of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub(super) enum State {
    /// Its scan has begun in this process; in another one it was interrupted.
    Begun { process: Uuid },
    /// Its scan was interrupted, or began without this process: it has no job.
    Interrupted,
    /// It ended whole, and its job has not ended.
    Ended {
        /// Attribute path of the job.
        attr_path: String,
        payload: String,
    },
    /// Its job has ended.
    Done,
}

/// Content of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Number of the mapping in the order of their beginnings.
    number: u64,
    #[serde(flatten)]
    state: State,
}

/// Records of one ingester's mappings.
#[derive(Debug)]
pub(super) struct Records {
    directory: PathBuf,
    /// Identity of this process.
    process: Uuid,
    by_uuid: BTreeMap<Uuid, Record>,
}

impl Records {
    /// Reads the records in `directory`, which is created.
    pub(super) fn open(directory: &Path, process: Uuid) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut records = Self { directory: directory.to_owned(), process, by_uuid: BTreeMap::new() };
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let uuid = path.file_stem().and_then(|stem| stem.to_str()?.parse::<Uuid>().ok());
            let Some(uuid) = uuid.filter(|_| path.extension().is_some_and(|found| found == EXTENSION)) else {
                continue;
            };
            let record = serde_json::from_reader(BufReader::new(read_regular(&path)?)).map_err(|error| {
                let text =
                    format!("{}: {error}: remove the file", sanitize(path.as_os_str().as_encoded_bytes()));
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?;
            records.by_uuid.insert(uuid, record);
        }
        Ok(records)
    }

    /// Records the beginning of a mapping. One that is known keeps its state, since the scan begins a second
    /// time; one whose first update is its last has begun without this process.
    pub(super) fn begin(&mut self, uuid: Uuid, is_last_update: bool) -> io::Result<()> {
        match self.by_uuid.get(&uuid).map(|record| &record.state) {
            None if is_last_update => self.set(uuid, State::Interrupted)?,
            None => self.set(uuid, State::Begun { process: self.process })?,
            Some(State::Begun { .. }) => self.set(uuid, State::Interrupted)?,
            Some(_) => {}
        }
        self.forget_old()
    }

    /// Records the end of a mapping; returns true if it has a job.
    pub(super) fn end(&mut self, uuid: Uuid, is_whole: bool, job: &JobOffered) -> io::Result<bool> {
        let begun = State::Begun { process: self.process };
        if self.by_uuid.get(&uuid).is_none_or(|record| record.state != begun) {
            return Ok(false);
        }
        let (attr_path, payload) = (job.job.attr_path().to_owned(), job.payload.clone());
        self.set(uuid, if is_whole { State::Ended { attr_path, payload } } else { State::Interrupted })?;
        Ok(is_whole)
    }

    pub(super) fn job_ended(&mut self, uuid: Uuid) -> io::Result<()> {
        self.set(uuid, State::Done)
    }

    /// Jobs that have not ended, the oldest first.
    pub(super) fn jobs(&self, owner: &str) -> Vec<(Uuid, JobOffered)> {
        let job = |(uuid, record): (&Uuid, &Record)| match &record.state {
            State::Ended { attr_path, payload } => {
                let job = JobId::of_attr_path(owner, attr_path, uuid.to_string());
                Some((record.number, *uuid, JobOffered { job, former_claim: None, payload: payload.clone() }))
            }
            _ => None,
        };
        let mut jobs: Vec<_> = self.by_uuid.iter().filter_map(job).collect();
        jobs.sort_by_key(|(number, ..)| *number);
        jobs.into_iter().map(|(_, uuid, job)| (uuid, job)).collect()
    }

    /// Writes a record durably, and then changes it in memory.
    fn set(&mut self, uuid: Uuid, state: State) -> io::Result<()> {
        let next = self.by_uuid.values().map(|record| record.number + 1).max().unwrap_or(1);
        let number = self.by_uuid.get(&uuid).map_or(next, |record| record.number);
        let record = Record { number, state };
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(&serde_json::to_vec(&record)?)?;
        file.as_file().sync_all()?;
        file.persist(self.path(uuid))?;
        File::open(&self.directory)?.sync_all()?;
        self.by_uuid.insert(uuid, record);
        Ok(())
    }

    /// Removes the oldest records of mappings that have ended.
    fn forget_old(&mut self) -> io::Result<()> {
        let process = self.process;
        let over = |record: &Record| match &record.state {
            State::Begun { process: of } => *of != process,
            State::Ended { .. } => false,
            State::Interrupted | State::Done => true,
        };
        let mut old: Vec<_> = self
            .by_uuid
            .iter()
            .filter(|(_, record)| over(record))
            .map(|(uuid, record)| (record.number, *uuid))
            .collect();
        old.sort_unstable();
        for (_, uuid) in &old[..old.len().saturating_sub(KEPT_MAX)] {
            fs::remove_file(self.path(*uuid))?;
            self.by_uuid.remove(uuid);
        }
        Ok(())
    }

    fn path(&self, uuid: Uuid) -> PathBuf {
        self.directory.join(format!("{uuid}.{EXTENSION}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens the records in a new process.
    fn open(directory: &tempfile::TempDir) -> Records {
        Records::open(&directory.path().join("eiger"), Uuid::new_v4()).expect("the records")
    }

    fn job(uuid: Uuid) -> JobOffered {
        JobOffered {
            former_claim: None,
            job: JobId::new("ingester.eiger", &uuid.to_string(), uuid.to_string()),
            payload: "p".to_owned(),
        }
    }

    fn uuids(records: &Records) -> Vec<u128> {
        records.jobs("ingester.eiger").into_iter().map(|(uuid, _)| uuid.as_u128()).collect()
    }

    #[test]
    fn a_mapping_that_ended_whole_has_one_job_over_restarts() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut records = open(&directory);
        let [one, two] = [9, 2].map(Uuid::from_u128);
        for uuid in [one, two] {
            records.begin(uuid, false).expect("a record");
            assert!(records.end(uuid, true, &job(uuid)).expect("a record"));
            assert!(!records.end(uuid, true, &job(uuid)).expect("a record"), "a repeated end");
        }
        assert_eq!(uuids(&records), [9, 2]);
        let mut records = open(&directory);
        assert_eq!(records.jobs("ingester.eiger")[0], (one, job(one)));
        // The controller repeats its last update after a restart.
        records.begin(one, true).expect("a record");
        assert!(!records.end(one, true, &job(one)).expect("a record"));
        records.job_ended(one).expect("a record");
        assert_eq!(uuids(&open(&directory)), [2]);
    }

    #[test]
    fn an_interrupted_mapping_has_no_job() {
        let directory = tempfile::tempdir().expect("a directory");
        let [killed, failed, late, again] = [1, 2, 3, 4].map(Uuid::from_u128);
        open(&directory).begin(killed, false).expect("a record");
        let mut records = open(&directory);
        assert!(!records.end(killed, true, &job(killed)).expect("a record"), "of another process");
        records.begin(killed, false).expect("a record");
        records.begin(failed, false).expect("a record");
        records.begin(late, true).expect("a record");
        records.begin(again, false).expect("a record");
        records.begin(again, false).expect("a record");
        for uuid in [killed, failed, late, again] {
            assert!(!records.end(uuid, uuid != failed, &job(uuid)).expect("a record"), "{uuid}");
        }
        assert_eq!(uuids(&open(&directory)), [0_u128; 0]);
    }

    #[test]
    fn old_records_are_forgotten_but_not_waiting_jobs() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut records = open(&directory);
        for number in 0..KEPT_MAX as u128 + 20 {
            let uuid = Uuid::from_u128(number);
            records.begin(uuid, false).expect("a record");
            records.end(uuid, number < 10, &job(uuid)).expect("a record");
        }
        assert_eq!(uuids(&records).len(), 10);
        let files = fs::read_dir(directory.path().join("eiger")).expect("a directory").count();
        assert!(files <= KEPT_MAX + 11, "{files}");
    }

    #[test]
    fn a_damaged_record_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        drop(open(&directory));
        let file = directory.path().join("eiger").join(format!("{}.json", Uuid::from_u128(1)));
        fs::write(&file, "{").expect("a file");
        let error =
            Records::open(&directory.path().join("eiger"), Uuid::nil()).expect_err("damaged").to_string();
        assert!(
            error.starts_with(&file.display().to_string()) && error.ends_with("remove the file"),
            "{error}"
        );
    }
}
