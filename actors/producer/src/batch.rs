//! Jobs that are pushed together: one command to the server, made once, byte by byte as it is sent.

use crate::job::{Jid, Job, JobWriter};

/// Room for either command's head.
const HEAD: &[u8] = b"PUSHB [";
const SINGLE: &[u8] = b"PUSH ";

/// Jobs for one command, bounded so that a server is done with it in time (it gives a command five seconds).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    line: Vec<u8>,
    jids: Vec<Jid>,
}

/// A batch that takes no more jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the batch is full: push it and begin another one")]
pub struct BatchFull;

/// A batch as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    line: Vec<u8>,
    start: usize,
    jids: Vec<Jid>,
}

impl Batch {
    /// Jobs of a batch at the most.
    pub const JOBS_MAX: usize = 1_000;
    /// A batch that has so many bytes takes no more jobs.
    pub const BYTES_MAX: usize = 1024 * 1024;

    /// No jobs yet, and room for `jobs` of usual size.
    pub fn with_room_for(jobs: usize) -> Self {
        let jobs = jobs.min(Self::JOBS_MAX);
        let mut line = Vec::with_capacity(HEAD.len() + jobs * 320);
        line.extend_from_slice(HEAD);
        Self { line, jids: Vec::with_capacity(jobs) }
    }

    /// Adds a job.
    ///
    /// # Errors
    /// [`BatchFull`]; the job was not added.
    pub fn add(&mut self, writer: &JobWriter, job: &Job) -> Result<(), BatchFull> {
        if self.is_full() {
            return Err(BatchFull);
        }
        if !self.jids.is_empty() {
            self.line.push(b',');
        }
        writer.write(job, &mut self.line);
        self.jids.push(job.jid);
        Ok(())
    }

    /// Does it take no more?
    pub fn is_full(&self) -> bool {
        self.jids.len() >= Self::JOBS_MAX || self.line.len() >= Self::BYTES_MAX
    }

    /// Jobs in it.
    pub fn len(&self) -> usize {
        self.jids.len()
    }

    /// Is there no job in it?
    pub fn is_empty(&self) -> bool {
        self.jids.is_empty()
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.line.len()
    }

    /// The command: `PUSHB`, or `PUSH` for a single job, as a client without batches sends it. None without any job.
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
    /// What is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.line[self.start..]
    }

    /// Could a server that got only the first `sent` bytes have understood the command? It ends with the bracket that closes its JSON
    /// and a line end; a server that forgives a missing line end is thinkable, one that forgives a missing bracket is not.
    pub fn may_be_understood(&self, sent: usize) -> bool {
        sent + b"\r\n".len() >= self.bytes().len()
    }

    /// Is it a single `PUSH`?
    pub fn is_single(&self) -> bool {
        self.start > 0
    }

    /// The jobs' identifiers, in order.
    pub fn jids(&self) -> &[Jid] {
        &self.jids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::Id, job::Terms, pair::Pair};

    fn job(number: u8) -> Job {
        let (root_id, scion_id) = (Id([number; 12]), Id([0; 12]));
        let pair = Pair { root_id, root_tcn: 1, scion_id, scion_tcn: 2, page_size: 3 };
        Job { jid: Jid::derived(&pair, 1, 0), pair, keyed: false }
    }

    fn command(jobs: u8) -> Option<Command> {
        let writer = JobWriter::new(&Terms::default()).unwrap();
        let mut batch = Batch::with_room_for(usize::from(jobs));
        (0..jobs).for_each(|number| batch.add(&writer, &job(number)).unwrap());
        batch.into_command()
    }

    fn text(command: &Command) -> String {
        String::from_utf8(command.bytes().to_vec()).unwrap()
    }

    #[test]
    fn one_job_is_a_push_and_more_are_a_bulk() {
        assert_eq!(command(0), None);
        let mut one = Vec::new();
        JobWriter::new(&Terms::default()).unwrap().write(&job(0), &mut one);
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
    fn what_lacks_its_last_bracket_cannot_be_understood() {
        for command in [command(1).unwrap(), command(2).unwrap()] {
            let whole = command.bytes().len();
            let understood: Vec<bool> =
                (whole - 4..=whole).map(|sent| command.may_be_understood(sent)).collect();
            assert_eq!(understood, [false, false, true, true, true]);
            assert!(!command.may_be_understood(0));
        }
    }

    #[test]
    fn a_batch_is_bounded_in_jobs_and_bytes() {
        let fill = |terms: &Terms| {
            let writer = JobWriter::new(terms).unwrap();
            let mut batch = Batch::with_room_for(5);
            while !batch.is_full() {
                batch.add(&writer, &job(1)).unwrap();
            }
            let before = batch.clone();
            assert_eq!((batch.add(&writer, &job(1)), &batch), (Err(BatchFull), &before));
            batch
        };
        assert_eq!(fill(&Terms::default()).len(), Batch::JOBS_MAX);
        let long = fill(&Terms { jobtype: "j".repeat(5_000), ..Terms::default() });
        assert!(
            (200..220).contains(&long.len()) && long.bytes() < Batch::BYTES_MAX + 6_000,
            "{}",
            long.len()
        );
    }
}
