//! Handshake, `INFO` and push replies of Faktory's work protocol, version 2 (CONTRACT SP01, SP08 to SP10).

use std::collections::BTreeMap;

use ring::digest::{SHA256, digest};
use serde::Deserialize;

use orchestrator_edge::{PeerError, PeerErrorKind, Sent};

use super::{
    error::{ambiguous, refused},
    resp::{Reply, excerpt},
};
use orchestrator_producer_rules::{batch::Command, job::Jid, queue_state::QueueState};

use crate::queue::Unacknowledged;

const VERSION: u32 = 2;
/// Upper bound of the rounds of the password hash. Servers ask for 4,000 to 8,095.
const ROUNDS_MAX: u32 = 100_000;

/// Returns the `HELLO` line for `greeting`, the text behind the `+`.
///
/// # Errors
/// The greeting is invalid, or it requires a password and there is none.
pub(super) fn hello(greeting: &str, password: Option<&str>) -> Result<String, PeerError> {
    #[derive(Deserialize)]
    struct Greeting {
        v: u32,
        i: Option<u32>,
        s: Option<String>,
    }
    let strange = |text: String| PeerError::new(PeerErrorKind::Malformed, Sent::No, text);
    let invalid = || strange(format!("it greets with {:?}: is this a Faktory server?", excerpt(greeting)));
    let json = greeting.strip_prefix("HI ").ok_or_else(invalid)?;
    let Greeting { v, i, s } = serde_json::from_str(json).map_err(|_| invalid())?;
    if v != VERSION {
        return Err(strange(format!(
            "it speaks protocol version {v} instead of {VERSION}: use a Faktory server 1.x"
        )));
    }
    let Some(salt) = s else { return Ok(format!("HELLO {{\"v\":{VERSION}}}\r\n")) };
    let password = password.ok_or_else(|| {
        PeerError::new(PeerErrorKind::Refused, Sent::No, "it requires a password").with_advice(
            "write the password into a file, and set producer.faktory.password_file to its path".to_owned(),
        )
    })?;
    let rounds = i.unwrap_or(1).max(1);
    if rounds > ROUNDS_MAX {
        return Err(strange(format!(
            "it asks for {rounds} rounds of the password hash, more than {ROUNDS_MAX}"
        )));
    }
    let first = digest(&SHA256, [password, &salt].concat().as_bytes());
    let last = (1..rounds).fold(first, |hash, _| digest(&SHA256, hash.as_ref()));
    let hash: String = last.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("HELLO {{\"v\":{VERSION},\"pwdhash\":\"{hash}\"}}\r\n"))
}

/// Parses the reply to `INFO`.
///
/// # Errors
/// A required field is missing or has another type.
pub(super) fn parse_info(json: &[u8]) -> Result<QueueState, String> {
    #[derive(Deserialize)]
    struct Info {
        faktory: Faktory,
    }
    #[derive(Deserialize)]
    struct Faktory {
        queues: BTreeMap<String, u64>,
        sets: Sets,
        total_processed: u64,
    }
    #[derive(Deserialize)]
    struct Sets {
        dead: u64,
        retries: u64,
        scheduled: u64,
        working: u64,
    }
    let Info { faktory } = serde_json::from_slice(json).map_err(|error| {
        format!("its INFO cannot be read: {}: use a Faktory server 1.x", excerpt(error.to_string()))
    })?;
    let Faktory { queues, sets: Sets { dead, retries, scheduled, working }, total_processed } = faktory;
    Ok(QueueState { queues, dead, retries, scheduled, working, processed: total_processed })
}

/// Parses the reply to `command`; `None` if all jobs are enqueued.
///
/// # Errors
/// The server refused the whole batch, or this cannot be the reply to the command.
pub(super) fn parse_push_reply(command: &Command, reply: Reply) -> Result<Option<Unacknowledged>, PeerError> {
    match reply {
        Reply::Error(reason) if command.is_single() && is_duplicate(&reason) => Ok(None),
        Reply::Error(reason) => Err(refused(&excerpt(&reason))),
        Reply::Simple(text) if command.is_single() && text == "OK" => Ok(None),
        Reply::Bulk(json) if !command.is_single() => parse_refusals(command.jids(), &json),
        other => Err(ambiguous(&format!("the reply does not fit the command: {other}"))),
    }
}

/// True if an equal job is enqueued (`custom.unique_for`), as the code of the error says. It is that of an
/// earlier push, whose reply may have been lost.
fn is_duplicate(reason: &str) -> bool {
    reason.split(' ').next() == Some("NOTUNIQUE")
}

fn parse_refusals(jids: &[Jid], json: &[u8]) -> Result<Option<Unacknowledged>, PeerError> {
    let invalid = |reason: String| ambiguous(&format!("the reply cannot be read: {reason}"));
    let mut reasons: BTreeMap<String, String> =
        serde_json::from_slice(json).map_err(|error| invalid(excerpt(error.to_string())))?;
    if reasons.is_empty() {
        return Ok(None);
    }
    let (mut positions, mut first) = (Vec::new(), None);
    for (position, jid) in jids.iter().enumerate() {
        if let Some(reason) = reasons.remove(&jid.to_string()).filter(|reason| !is_duplicate(reason)) {
            positions.push(position);
            first.get_or_insert(reason);
        }
    }
    if let Some(unknown) = reasons.keys().next() {
        return Err(invalid(format!("it names job {}, which was not sent", excerpt(unknown))));
    }
    Ok(first.map(|reason| Unacknowledged { positions, reason: refused(&excerpt(reason)).text }))
}

#[cfg(test)]
mod tests {
    use orchestrator_edge::Sent;

    use super::*;
    use orchestrator_producer_rules::{
        batch::Batch,
        id::Id,
        job::{Job, JobOptions, JobWriter},
        pair::Pair,
    };

    #[test]
    fn without_a_salt_hello_has_no_password_hash() {
        for password in [None, Some("unused")] {
            assert_eq!(hello(r#"HI {"v":2}"#, password), Ok("HELLO {\"v\":2}\r\n".to_owned()));
        }
    }

    #[test]
    fn hello_has_the_hash_that_the_server_computes() {
        // Computed with Python's hashlib.
        let password = Some("123");
        let said = hello(r#"HI {"v":2,"s":"55104dc76695721d","i":1545}"#, password).unwrap();
        let wanted = "cb646442460da58e8ab42cc1fd1e874135a415dbd355a9309b4250b74d095cf9";
        assert_eq!(said, format!("HELLO {{\"v\":2,\"pwdhash\":\"{wanted}\"}}\r\n"));
        let once = hello(r#"HI {"v":2,"s":"salt","i":1}"#, password).unwrap();
        assert!(once.contains("81d40d94fee4fb4eeb1a21bb7adb93c06aad35b929c1a2b024ae33b3a9b79e23"), "{once}");
    }

    #[test]
    fn invalid_greetings_are_refused() {
        let password = Some("x");
        for (greeting, said) in [
            ("OK", "is this a Faktory server"),
            ("HI there", "is this a Faktory server"),
            ("HI {\"v\":\"2\"}", "is this a Faktory server"),
            ("HI {\"v\":3}", "version 3"),
            ("HI {\"v\":2,\"i\":4000000000,\"s\":\"a\"}", "4000000000 rounds"),
        ] {
            let error = hello(greeting, password).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = hello(r#"HI {"v":2,"i":4000,"s":"a"}"#, None).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("set producer.faktory.password_file"), "{error}");
    }

    #[test]
    fn info_has_queues_and_sets() {
        let json = br#"{"now":"2026-11-21T00:00:00Z","faktory":{"queues":{"a":2,"b":0},"tasks":{},"total_failures":9,
            "total_processed":8,"sets":{"dead":1,"retries":2,"scheduled":3,"working":4}},"server":{"uptime":5}}"#;
        let queues = [("a".to_owned(), 2), ("b".to_owned(), 0)].into();
        let wanted = QueueState { queues, dead: 1, retries: 2, scheduled: 3, working: 4, processed: 8 };
        assert_eq!(parse_info(json), Ok(wanted));
    }

    /// The JSON decoder quotes the unexpected text in full.
    #[test]
    fn an_info_error_is_short() {
        let json = format!("{{\"faktory\": \"{}\"}}", "x".repeat(3_000_000));
        let error = parse_info(json.as_bytes()).unwrap_err();
        assert!(error.len() < 400 && error.contains("bytes left out"), "{}", error.len());
    }

    #[test]
    fn an_info_without_a_required_field_is_an_error() {
        for (json, said) in [
            ("", "EOF"),
            ("{}", "faktory"),
            (r#"{"faktory":{"queues":{}}}"#, "sets"),
            (r#"{"faktory":{"queues":{},"sets":{"dead":1,"retries":2,"scheduled":3}}}"#, "working"),
            (r#"{"faktory":{"queues":{"a":-1},"sets":{}}}"#, "-1"),
        ] {
            let error = parse_info(json.as_bytes()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    fn command(jobs: u64) -> Command {
        let writer = JobWriter::new(&JobOptions::default()).unwrap();
        let id = Id([0; 12]);
        let pair = Pair { root_id: id, root_tcn: 1, scion_id: id, scion_tcn: 2, page_size: 3 };
        let mut batch = Batch::with_room_for(3);
        for number in 0..jobs {
            assert!(batch.add(&writer, &Job { jid: Jid::derived(&pair, number, 0), pair, keyed: false }));
        }
        batch.into_command().unwrap()
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.to_owned().into())
    }

    #[test]
    fn refused_jobs_are_reported_by_position() {
        let command = command(3);
        assert_eq!(parse_push_reply(&command, bulk("{}")), Ok(None));
        let json = format!(r#"{{"{}":"","{}":"no\nway"}}"#, command.jids()[2], command.jids()[0]);
        let refused = Unacknowledged { positions: vec![0, 2], reason: "faktory: no\\nway".to_owned() };
        assert_eq!(parse_push_reply(&command, bulk(&json)), Ok(Some(refused)));
    }

    #[test]
    fn a_duplicate_is_enqueued() {
        let duplicate = "NOTUNIQUE Job not unique";
        assert_eq!(parse_push_reply(&command(1), Reply::Error(duplicate.to_owned())), Ok(None));
        let two = command(2);
        let [first, second] = [two.jids()[0], two.jids()[1]];
        let json = format!(r#"{{"{first}":"{duplicate}","{second}":"{duplicate}"}}"#);
        assert_eq!(parse_push_reply(&two, bulk(&json)), Ok(None));
        let json = format!(r#"{{"{first}":"{duplicate}","{second}":"full"}}"#);
        let refused = Unacknowledged { positions: vec![1], reason: "faktory: full".to_owned() };
        assert_eq!(parse_push_reply(&two, bulk(&json)), Ok(Some(refused)));
    }

    #[test]
    fn an_error_refuses_the_whole_batch() {
        for command in [command(1), command(2)] {
            let outcome = parse_push_reply(&command, Reply::Error("ERR shutdown in progress".to_owned()));
            assert_eq!(outcome, Err(refused("ERR shutdown in progress")));
        }
        assert_eq!(parse_push_reply(&command(1), Reply::Simple("OK".to_owned())), Ok(None));
    }

    #[test]
    fn an_unexpected_reply_is_ambiguous() {
        let unknown_job = format!(r#"{{"{}":"x"}}"#, Jid::random());
        for (jobs, reply) in [
            (1, bulk("{}")),
            (1, Reply::Simple("PONG".to_owned())),
            (2, Reply::Simple("OK".to_owned())),
            (2, Reply::Null),
            (2, bulk("[]")),
            (2, bulk("{\"a")),
            (2, bulk(&unknown_job)),
        ] {
            let outcome = parse_push_reply(&command(jobs), reply.clone());
            assert!(matches!(&outcome, Err(error) if error.sent == Sent::Maybe), "{reply:?}: {outcome:?}");
        }
    }
}
