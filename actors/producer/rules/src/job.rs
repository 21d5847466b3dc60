//! Wire format of a job (CONTRACT SP02 to SP05). Workers depend on its five arguments; additional data is in
//! `custom`.

mod options;

use std::{collections::BTreeMap, fmt};

use ring::digest::{SHA256, digest};
use serde_json::json;
use uuid::Uuid;

pub use self::options::JobOptions;
use crate::pair::Pair;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Identifier of a job, 32 hexadecimal digits on the wire. It must be unique: of two jobs with one jid, one
/// stays in the set of working jobs until its reservation ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Jid(Uuid);

impl Jid {
    /// A jid of 122 random bits, as a UUID of version 4 has.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Another attempt has another jid, because the job of the earlier one may be queued.
    pub fn derived(pair: &Pair, epoch: u64, attempt: u32) -> Self {
        let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = pair;
        // All fields have a fixed length, so different inputs have different bytes.
        let fields: [&[u8]; 7] = [
            &epoch.to_be_bytes(),
            &attempt.to_be_bytes(),
            &root_id.0,
            &root_tcn.to_be_bytes(),
            &scion_id.0,
            &scion_tcn.to_be_bytes(),
            &page_size.to_be_bytes(),
        ];
        let mut jid = [0; 16];
        jid.iter_mut().zip(digest(&SHA256, &fields.concat()).as_ref()).for_each(|(to, from)| *to = *from);
        Self(Uuid::from_bytes(jid))
    }

    /// Parses the form that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        // Other forms of a UUID are not jids.
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

/// Job to push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Identifier on the server.
    pub jid: Jid,
    /// Pair of pages: the five arguments.
    pub pair: Pair,
    /// True to send the pair's key as `custom.key`. The original's jobs have no `custom`.
    pub keyed: bool,
}

/// Encoder of jobs with the same [`JobOptions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobWriter {
    /// Bytes between the jid and the first argument, the same for most jobs.
    common: Vec<u8>,
    /// Those of TCNs with a queue or a type of their own.
    by_tcn: BTreeMap<i64, Vec<u8>>,
    /// Fields of `custom` besides the key.
    custom: Vec<u8>,
}

impl JobWriter {
    /// Returns an encoder of jobs with `options`.
    ///
    /// # Errors
    /// Faktory would refuse such jobs. The text begins with `key = value`.
    pub fn new(options: &JobOptions) -> Result<Self, String> {
        options.check()?;
        let common = |queue: &str, jobtype: &str| {
            let JobOptions { retry, reserve_for_secs, backtrace, .. } = options;
            let (queue, jobtype) = (json!(queue), json!(jobtype));
            format!(
                r#"","queue":{queue},"jobtype":{jobtype},"retry":{retry},"reserve_for":{reserve_for_secs},"backtrace":{backtrace},"args":[""#
            )
            .into_bytes()
        };
        let special = |tcn: i64| {
            let (queue, jobtype) = options.of_tcn(tcn);
            (tcn, common(queue, jobtype))
        };
        Ok(Self {
            common: common(&options.queue, &options.jobtype),
            by_tcn: options.special_tcns().into_iter().map(special).collect(),
            custom: options.custom_fields().into_bytes(),
        })
    }

    /// Returns an upper bound of a job's size, in bytes.
    pub fn job_bytes_max(&self) -> usize {
        let common = self.by_tcn.values().map(Vec::len).fold(self.common.len(), usize::max);
        // The jid, two ids and three numbers, which the key repeats, and what is between them.
        common + self.custom.len() + 400
    }

    /// Appends `job` as JSON, without a line end.
    pub fn write(&self, job: &Job, to: &mut Vec<u8>) {
        let Pair { root_id, root_tcn, scion_id, scion_tcn, page_size } = job.pair;
        let common = self.by_tcn.get(&job.pair.tcn()).unwrap_or(&self.common);
        let (root_id, scion_id) = (hex(&root_id.0), hex(&scion_id.0));
        let [root_tcn, scion_tcn, page_size] = [root_tcn, scion_tcn, page_size.into()].map(Digits::of);
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| to.extend_from_slice(part));
        put(&[br#"{"jid":""#, hex(job.jid.0.as_bytes()).as_flattened(), common]);
        put(&[root_id.as_flattened(), b"\",", root_tcn.text(), b",\"", scion_id.as_flattened()]);
        put(&[b"\",", scion_tcn.text(), b",", page_size.text(), b"]"]);
        if job.keyed {
            // The same form as the pair's `Display`.
            put(&[br#","custom":{"key":""#, root_id.as_flattened(), b":", root_tcn.text(), b":"]);
            put(&[scion_id.as_flattened(), b":", scion_tcn.text(), b":", page_size.text(), b"\""]);
            let comma: &[u8] = if self.custom.is_empty() { b"" } else { b"," };
            put(&[comma, &self.custom, b"}"]);
        } else if !self.custom.is_empty() {
            put(&[br#","custom":{"#, &self.custom, b"}"]);
        }
        put(&[b"}"]);
    }
}

fn hex<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    bytes.map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
}

/// Decimal form of a number. The standard formatter took most of a job's encoding time.
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
            // The remainder is less than ten.
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
    use serde_json::{Map, Value};

    use super::*;
    use crate::id::Id;

    const PAIR: Pair = Pair {
        root_id: Id(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\xff"),
        root_tcn: 4,
        scion_id: Id([0xab; 12]),
        scion_tcn: -1,
        page_size: 500,
    };

    fn written(options: &JobOptions, job: &Job) -> String {
        let mut bytes = Vec::new();
        JobWriter::new(options).unwrap().write(job, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_job_has_all_required_fields() {
        let jid = Jid::parse("00112233445566778899aabbccddeeff").unwrap();
        let plain = r#"{"jid":"00112233445566778899aabbccddeeff","queue":"arborescent","jobtype":"arbor_job","retry":25,"reserve_for":1800,"backtrace":5,"args":["000102030405060708090aff",4,"abababababababababababab",-1,500]"#;
        let job = Job { jid, pair: PAIR, keyed: false };
        assert_eq!(written(&JobOptions::default(), &job), format!("{plain}}}"));
        let job = Job { keyed: true, ..job };
        assert_eq!(
            written(&JobOptions::default(), &job),
            format!(r#"{plain},"custom":{{"key":"{PAIR}"}}}}"#)
        );
    }

    #[test]
    fn queue_type_and_custom_fields_are_as_configured() {
        let options = JobOptions {
            queues: [(3, "heavy".to_owned())].into(),
            jobtypes: [(3, "long_job".to_owned())].into(),
            custom: Map::from_iter([("site".to_owned(), json!("a}b\n")), ("n".to_owned(), json!({"m": 1}))]),
            ..JobOptions::default()
        };
        let read = |job: &Job| serde_json::from_str::<Value>(&written(&options, job)).unwrap();
        let job = Job { jid: Jid::derived(&PAIR, 1, 0), pair: PAIR, keyed: true };
        let heavy = read(&job);
        assert_eq!((&heavy["queue"], &heavy["jobtype"]), (&json!("heavy"), &json!("long_job")), "TCN 4 - 1");
        assert_eq!(heavy["custom"], json!({"key": PAIR.to_string(), "site": "a}b\n", "n": {"m": 1}}));
        let pair = Pair { root_tcn: 5, ..PAIR };
        let other = read(&Job { pair, keyed: false, ..job });
        assert_eq!((&other["queue"], &other["jobtype"]), (&json!("arborescent"), &json!("arbor_job")));
        assert_eq!(other["custom"], json!({"site": "a}b\n", "n": {"m": 1}}));
    }

    #[test]
    fn each_attempt_has_its_own_jid() {
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
    fn numbers_are_written_in_decimal() {
        for number in [0, 1, -1, 9, 10, -10, 500, i64::MAX, i64::MIN] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }

    proptest! {
        /// Any job is JSON with exactly its values.
        #[test]
        fn any_job_is_json_with_its_values(
            jid: [u8; 16], ids: [[u8; 12]; 2], root_tcn: i64, scion_tcn: i64, page_size: u32, keyed: bool,
            jobtype in ".+", retry: i32, backtrace: u32,
        ) {
            let [root_id, scion_id] = ids.map(Id);
            let pair = Pair { root_id, root_tcn, scion_id, scion_tcn, page_size };
            let options = JobOptions { jobtype: jobtype.clone(), retry, backtrace, ..JobOptions::default() };
            let jid = Jid(Uuid::from_bytes(jid));
            let text = written(&options, &Job { jid, pair, keyed });
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
            prop_assert!(text.len() <= JobWriter::new(&options).unwrap().job_bytes_max());
        }
    }
}
