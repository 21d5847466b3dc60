//! A job as it goes to Faktory. Its five arguments are a contract with the workers that exist; what else is to be known of it
//! travels in `custom`.

use std::fmt;

use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::pair::Pair;

/// Longest reservation that a server takes, seconds.
const RESERVE_MAX_SECS: u32 = 86_400;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A job's identifier, 32 hexadecimal digits on the wire. Two jobs with one identifier are illegal: servers do not tell them
/// apart, and one of them stays in the set of working jobs until its reservation ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Jid(Uuid);

impl Jid {
    /// One that is used nowhere else.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The one of the `attempt`th push of the job of `pair` by the holder of the lease `epoch`: the same whenever it is asked for, and
    /// another one for each attempt, since a job whose fate is unknown must not be pushed again under its old name.
    pub fn derived(pair: &Pair, epoch: u64, attempt: u32) -> Self {
        let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = pair;
        // All have a fixed length, so that no two inputs read alike.
        let hash = Sha256::new()
            .chain_update(epoch.to_be_bytes())
            .chain_update(attempt.to_be_bytes())
            .chain_update(root_id.0)
            .chain_update(root_tcn.to_be_bytes())
            .chain_update(scion_id.0)
            .chain_update(scion_tcn.to_be_bytes())
            .chain_update(page_size.to_be_bytes());
        let mut jid = [0; 16];
        jid.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        Self(Uuid::from_bytes(jid))
    }

    /// Reads what [`Jid`]'s `Display` writes; none if it is not that.
    pub fn parse(text: &str) -> Option<Self> {
        // Other forms of a UUID are no identifiers of jobs.
        Uuid::try_parse(text).ok().map(Self).filter(|jid| jid.to_string() == text)
    }
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl fmt::Debug for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jid({self})")
    }
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its name on the server.
    pub jid: Jid,
    /// What it is about: its five arguments.
    pub pair: Pair,
    /// Does it carry the pair's key in `custom.key`? The original's jobs have no `custom`.
    pub keyed: bool,
}

/// What all jobs of a producer have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Queue: letters, digits, `.`, `_` and `-`.
    pub queue: String,
    /// Job type that workers registered.
    pub jobtype: String,
    /// How often it is tried again after a failure; 0 drops it, -1 makes it dead at once. Always sent: a server that is told it by one
    /// client takes it for the default of all later jobs without one.
    pub retry: i32,
    /// How long a worker may take, seconds.
    pub reserve_for_secs: u32,
    /// Lines of a failure's backtrace that are kept.
    pub backtrace: u32,
}

impl Default for Terms {
    /// Those of the original.
    fn default() -> Self {
        Self {
            queue: "arborescent".to_owned(),
            jobtype: "arbor_job".to_owned(),
            retry: 25,
            reserve_for_secs: 1800,
            backtrace: 5,
        }
    }
}

/// Writes jobs of the same [`Terms`]: what they have in common is written once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWriter {
    /// From the end of `jid` to the first argument.
    common: Vec<u8>,
}

impl JobWriter {
    /// A writer for jobs of `terms`.
    ///
    /// # Errors
    /// A server would refuse such jobs; the text says why.
    pub fn new(terms: &Terms) -> Result<Self, String> {
        let legal = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
        if terms.queue.is_empty() || !terms.queue.bytes().all(legal) {
            return Err(format!("queue {:?}: write letters, digits, `.`, `_` and `-` only", terms.queue));
        }
        if terms.jobtype.is_empty() {
            return Err("a job type must not be empty".to_owned());
        }
        if terms.reserve_for_secs > RESERVE_MAX_SECS {
            return Err(format!(
                "reserve_for = {}: a server takes {RESERVE_MAX_SECS} s at the most",
                terms.reserve_for_secs
            ));
        }
        let Terms { queue, jobtype, retry, reserve_for_secs, backtrace } = terms;
        let (queue, jobtype) = (json!(queue), json!(jobtype));
        let common = format!(
            r#"","queue":{queue},"jobtype":{jobtype},"retry":{retry},"reserve_for":{reserve_for_secs},"backtrace":{backtrace},"args":[""#
        );
        Ok(Self { common: common.into_bytes() })
    }

    /// Appends `job` as JSON, without a line end.
    pub fn write(&self, job: &Job, to: &mut Vec<u8>) {
        let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = job.pair;
        let (root_id, scion_id) = (hex(&root_id.0), hex(&scion_id.0));
        let [root_tcn, scion_tcn, page_size] = [root_tcn, scion_tcn, page_size.into()].map(Digits::of);
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| to.extend_from_slice(part));
        put(&[br#"{"jid":""#, hex(job.jid.0.as_bytes()).as_flattened(), &self.common]);
        put(&[root_id.as_flattened(), b"\",", root_tcn.text(), b",\"", scion_id.as_flattened()]);
        put(&[b"\",", scion_tcn.text(), b",", page_size.text(), b"]"]);
        if job.keyed {
            // As the pair's `Display`.
            put(&[br#","custom":{"key":""#, root_id.as_flattened(), b":", root_tcn.text(), b":"]);
            put(&[scion_id.as_flattened(), b":", scion_tcn.text(), b":", page_size.text(), b"\"}"]);
        }
        put(&[b"}"]);
    }
}

fn hex<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    bytes.map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
}

/// A number in decimal, without the formatter that took most of the time of a job.
struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    fn of(number: i64) -> Self {
        let mut digits = Self { text: [b'-'; 20], start: 20 };
        let mut left = number.unsigned_abs();
        while left > 0 || digits.start == 20 {
            digits.start -= 1;
            // Less than ten.
            digits.text[digits.start] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        digits.start -= usize::from(number < 0);
        digits
    }

    fn text(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::id::Id;

    const PAIR: Pair = Pair {
        root_id: Id(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\xff"),
        root_tcn: 4,
        scion_id: Id([0xab; 12]),
        scion_tcn: -1,
        page_size: 500,
    };

    fn written(terms: &Terms, job: &Job) -> String {
        let mut bytes = Vec::new();
        JobWriter::new(terms).unwrap().write(job, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_job_has_every_field_that_must_be_sent() {
        let jid = Jid::parse("00112233445566778899aabbccddeeff").unwrap();
        let plain = r#"{"jid":"00112233445566778899aabbccddeeff","queue":"arborescent","jobtype":"arbor_job","retry":25,"reserve_for":1800,"backtrace":5,"args":["000102030405060708090aff",4,"abababababababababababab",-1,500]"#;
        let job = Job { jid, pair: PAIR, keyed: false };
        assert_eq!(written(&Terms::default(), &job), format!("{plain}}}"));
        let job = Job { keyed: true, ..job };
        assert_eq!(written(&Terms::default(), &job), format!(r#"{plain},"custom":{{"key":"{PAIR}"}}}}"#));
    }

    #[test]
    fn terms_that_a_server_would_refuse_are_refused_here() {
        let terms = Terms::default();
        for (wrong, said) in [
            (Terms { queue: String::new(), ..terms.clone() }, "queue \"\""),
            (Terms { queue: "a b".to_owned(), ..terms.clone() }, "queue \"a b\""),
            (Terms { jobtype: String::new(), ..terms.clone() }, "a job type"),
            (Terms { reserve_for_secs: 86_401, ..terms.clone() }, "reserve_for = 86401"),
        ] {
            let text = JobWriter::new(&wrong).unwrap_err();
            assert!(text.starts_with(said), "{text}");
        }
        assert!(JobWriter::new(&Terms { reserve_for_secs: 86_400, ..terms }).is_ok());
    }

    #[test]
    fn an_attempt_has_a_name_of_its_own_and_keeps_it() {
        let first = Jid::derived(&PAIR, 1, 0);
        assert_eq!(first, Jid::derived(&PAIR, 1, 0));
        let other = Pair { page_size: 50, ..PAIR };
        for other in [Jid::derived(&other, 1, 0), Jid::derived(&PAIR, 2, 0), Jid::derived(&PAIR, 1, 1)] {
            assert_ne!(first, other);
        }
        assert_ne!(Jid::random(), Jid::random());
        assert_eq!(Jid::parse(&first.to_string()), Some(first));
        for wrong in ["", "0", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert_eq!(Jid::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 1, -1, 9, 10, -10, 500, i64::MAX, i64::MIN] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }

    proptest! {
        /// What is written by hand is what a JSON library reads, whatever is in it.
        #[test]
        fn any_job_is_json_with_exactly_its_values(
            jid: [u8; 16], ids: [[u8; 12]; 2], root_tcn: i64, scion_tcn: i64, page_size: u32, keyed: bool,
            jobtype in ".+", retry: i32, backtrace: u32,
        ) {
            let [root_id, scion_id] = ids.map(Id);
            let pair = Pair { root_id, root_tcn, scion_id, scion_tcn, page_size };
            let terms = Terms { jobtype: jobtype.clone(), retry, backtrace, ..Terms::default() };
            let jid = Jid(Uuid::from_bytes(jid));
            let text = written(&terms, &Job { jid, pair, keyed });
            let read: Value = serde_json::from_str(&text).unwrap();
            let mut wanted = json!({
                "jid": jid.to_string(), "queue": "arborescent", "jobtype": jobtype, "retry": retry,
                "reserve_for": 1800, "backtrace": backtrace, "args": serde_json::to_value(pair.args()).unwrap(),
            });
            if keyed {
                wanted["custom"] = json!({ "key": pair.to_string() });
            }
            prop_assert_eq!(read, wanted);
            prop_assert!(!text.contains(['\r', '\n']), "a line end would end the command");
        }
    }
}
