//! Jobs that a subsystem offers to the queue.

use std::{fmt::Write, sync::Arc};

use orchestrator_supervise::Message;

/// Maximum size of a payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// Identity of an offered job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobId {
    owner: Arc<str>,
    attr_path: Arc<str>,
    claim: Arc<str>,
}

impl JobId {
    /// Creates the identity of the job `name` of `owner`. `claim` tells apart jobs that have the same name
    /// one after the other: the end of a job counts only for the claim under which it was handed out.
    ///
    /// `owner` is the subsystem with its own name, with a `.` between them, which the name of a fetcher
    /// cannot have. In the attribute path, white space, control characters and `%` of `name` are written as
    /// `%` and two hexadecimal digits for each byte, because a worker's lines are split at blanks.
    ///
    /// # Panics
    /// `owner` has no `.`.
    pub fn new(owner: impl Into<Arc<str>>, name: &str, claim: impl Into<Arc<str>>) -> Self {
        let owner = owner.into();
        assert!(owner.contains('.'), "the owner of a job has a dot");
        let attr_path = encode(name, |c| c.is_whitespace() || c.is_control() || c == '%');
        Self { owner, attr_path: attr_path.into(), claim: claim.into() }
    }

    /// Identity of a job whose attribute path is encoded already, see [`JobId::new`].
    pub fn of_attr_path(owner: &str, attr_path: &str, claim: impl Into<Arc<str>>) -> Self {
        Self { owner: owner.into(), attr_path: attr_path.into(), claim: claim.into() }
    }

    /// Owner and attribute path, without the claim.
    pub fn owned_path(&self) -> (Arc<str>, Arc<str>) {
        (self.owner.clone(), self.attr_path.clone())
    }

    /// Subsystem and name, such as `catalog.lab.thumbnails`.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Path that workers see: `name` with white space, control characters and `%` encoded.
    pub fn attr_path(&self) -> &str {
        &self.attr_path
    }

    /// Tells apart jobs that have the same name one after the other, see [`JobId::new`].
    pub fn claim(&self) -> &str {
        &self.claim
    }
}

/// Writes control characters, such as line ends, as `%` and two hexadecimal digits for each byte.
pub fn payload_text(text: &str) -> String {
    encode(text, char::is_control)
}

fn encode(text: &str, is_encoded: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_encoded(c) {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// Offers a job. The answer comes when the job has ended, which may take days; it is lost if the queue
/// restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOffered {
    /// The job.
    pub job: JobId,
    /// Claim that this one replaces: if a worker has the former job, or has ended it, that counts for this
    /// one.
    pub former_claim: Option<Arc<str>>,
    /// Text behind the attribute path in the reply to a worker.
    pub payload: String,
}

impl Message for JobOffered {
    type Result = JobEnd;
}

/// End of an offered job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// A worker reported the job done.
    Finished(JobFinished),
    /// The owner has offered another job with this attribute path, which has not ended.
    Taken,
    /// The queue cannot have this job, for this reason.
    Refused(String),
}

/// A worker's report on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFinished {
    /// Exit code.
    pub exit_code: i64,
    /// Seconds from hand-out to report, by the wall clock.
    pub seconds: i64,
}

/// Withdraws an offered job, and forgets one that has ended. A job that was handed out stays with its worker;
/// the report on it reaches no subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWithdrawn {
    /// The job.
    pub job: JobId,
}

impl Message for JobWithdrawn {
    type Result = ();
}

/// Withdraws an offered job unless a worker has it or has ended it. The answer is true if nobody has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTakenBack {
    /// The job.
    pub job: JobId,
}

impl Message for JobTakenBack {
    type Result = bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_path_has_no_blank_and_can_be_decoded() {
        for (name, attr_path) in [
            ("17", "17"),
            ("a b", "a%20b"),
            ("a%20b", "a%2520b"),
            ("tab\tnew\nline\r", "tab%09new%0Aline%0D"),
            ("\u{a0}\u{3000}\u{85}\u{1f}", "%C2%A0%E3%80%80%C2%85%1F"),
            ("日本/x.y", "日本/x.y"),
        ] {
            assert_eq!(JobId::new("catalog.lab", name, "1").attr_path(), attr_path);
        }
    }

    #[test]
    fn a_payload_is_one_line() {
        assert_eq!(payload_text("a b%20\n\u{7f}ü"), "a b%20%0A%7Fü");
    }
}
