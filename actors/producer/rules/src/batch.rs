//! Batch of jobs: one command, encoded as it is sent (CONTRACT SP07).

use crate::job::{Jid, Job, JobWriter};

/// Prefixes of both commands. The first one reserves the space.
const HEAD: &[u8] = b"PUSHB [";
const SINGLE: &[u8] = b"PUSH ";

/// Jobs of one command, bounded so that the server answers within its limit of 5 s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    line: Vec<u8>,
    jids: Vec<Jid>,
}

/// Encoded command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    line: Vec<u8>,
    start: usize,
    jids: Vec<Jid>,
}

impl Batch {
    /// Upper bound of the jobs.
    pub const JOBS_MAX: usize = 1_000;
    /// Size in bytes from which a batch is full.
    pub const BYTES_MAX: usize = 1024 * 1024;

    /// Returns an empty batch with capacity for `jobs`.
    pub fn with_room_for(jobs: usize) -> Self {
        let jobs = jobs.min(Self::JOBS_MAX);
        let mut line = Vec::with_capacity(HEAD.len() + jobs * 320);
        line.extend_from_slice(HEAD);
        Self { line, jids: Vec::with_capacity(jobs) }
    }

    /// Adds a job. Returns false if the batch is full; it is unchanged then.
    #[must_use]
    pub fn add(&mut self, writer: &JobWriter, job: &Job) -> bool {
        if self.is_full() {
            return false;
        }
        if !self.jids.is_empty() {
            self.line.push(b',');
        }
        writer.write(job, &mut self.line);
        self.jids.push(job.jid);
        true
    }

    /// Returns true if no job can be added.
    pub fn is_full(&self) -> bool {
        self.jids.len() >= Self::JOBS_MAX || self.line.len() >= Self::BYTES_MAX
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.jids.len()
    }

    /// Returns true if there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jids.is_empty()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.line.len()
    }

    /// `PUSH` for a single job, else `PUSHB`; `None` without jobs.
    pub fn into_command(mut self) -> Option<Command> {
        let start = match self.jids.len() {
            0 => return None,
            1 => {
                let start = HEAD.len() - SINGLE.len();
                self.line[start..HEAD.len()].copy_from_slice(SINGLE);
                start
            }
            _ => {
                self.line.push(b']');
                0
            }
        };
        self.line.extend_from_slice(b"\r\n");
        Some(Command { line: self.line, start, jids: self.jids })
    }
}

impl Command {
    /// The command as it is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.line[self.start..]
    }

    /// Returns true if a server that received the first `sent` bytes can have parsed the command. A missing
    /// line end counts as received; a missing last bracket does not.
    pub fn may_be_parsed(&self, sent: usize) -> bool {
        sent + b"\r\n".len() >= self.bytes().len()
    }

    /// True for a push of one job.
    pub fn is_single(&self) -> bool {
        self.start > 0
    }

    /// Ids of its jobs, in order.
    pub fn jids(&self) -> &[Jid] {
        &self.jids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::Id, job::JobOptions, pair::Pair};

    fn job(number: u8) -> Job {
        let (root_id, scion_id) = (Id([number; 12]), Id([0; 12]));
        let pair = Pair { root_id, root_tcn: 1, scion_id, scion_tcn: 2, page_size: 3 };
        Job { jid: Jid::derived(&pair, 1, 0), pair, keyed: false }
    }

    fn command(jobs: u8) -> Option<Command> {
        let writer = JobWriter::new(&JobOptions::default()).unwrap();
        let mut batch = Batch::with_room_for(usize::from(jobs));
        (0..jobs).for_each(|number| assert!(batch.add(&writer, &job(number))));
        batch.into_command()
    }

    fn text(command: &Command) -> String {
        String::from_utf8(command.bytes().to_vec()).unwrap()
    }

    #[test]
    fn one_job_is_a_push_and_several_are_a_pushb() {
        assert_eq!(command(0), None);
        let mut one = Vec::new();
        JobWriter::new(&JobOptions::default()).unwrap().write(&job(0), &mut one);
        let one = String::from_utf8(one).unwrap();
        let single = command(1).unwrap();
        assert_eq!((text(&single), single.is_single()), (format!("PUSH {one}\r\n"), true));
        let bulk = command(3).unwrap();
        assert!(text(&bulk).starts_with(&format!("PUSHB [{one},{{")) && text(&bulk).ends_with("}]\r\n"));
        assert_eq!((bulk.jids().len(), bulk.is_single()), (3, false));
        let jobs: Vec<serde_json::Value> = serde_json::from_str(text(&bulk)[6..].trim_end()).unwrap();
        assert_eq!(jobs[2]["jid"], job(2).jid.to_string());
    }

    #[test]
    fn a_command_without_its_last_bracket_cannot_be_parsed() {
        for command in [command(1).unwrap(), command(2).unwrap()] {
            let whole = command.bytes().len();
            let understood: Vec<bool> = (whole - 4..=whole).map(|sent| command.may_be_parsed(sent)).collect();
            assert_eq!(understood, [false, false, true, true, true]);
            assert!(!command.may_be_parsed(0));
        }
    }

    #[test]
    fn a_batch_is_bounded_in_jobs_and_bytes() {
        let fill = |terms: &JobOptions| {
            let writer = JobWriter::new(terms).unwrap();
            let mut batch = Batch::with_room_for(5);
            while !batch.is_full() {
                assert!(batch.add(&writer, &job(1)));
            }
            let before = batch.clone();
            assert_eq!((batch.add(&writer, &job(1)), &batch), (false, &before));
            batch
        };
        assert_eq!(fill(&JobOptions::default()).len(), Batch::JOBS_MAX);
        let long = fill(&JobOptions { jobtype: "j".repeat(5_000), ..JobOptions::default() });
        assert!(
            (200..220).contains(&long.len()) && long.bytes() < Batch::BYTES_MAX + 6_000,
            "{}",
            long.len()
        );
    }
}
