//! What a server's reply says about the jobs of a command.

use std::collections::BTreeMap;

use super::{
    error::{PushError, Pushed, Refusal},
    resp::{Reply, excerpt},
};
use crate::{batch::Command, job::Jid};

/// Reads the reply to `command`.
///
/// # Errors
/// [`PushError::Refused`], or [`PushError::Ambiguous`] when it cannot be the reply to this command.
pub(super) fn verdict(command: &Command, reply: Reply) -> Result<Pushed, PushError> {
    match reply {
        Reply::Error(reason) => Err(PushError::Refused(excerpt(&reason))),
        Reply::Simple(text) if command.is_single() && text == "OK" => Ok(Pushed::default()),
        Reply::Bulk(json) if !command.is_single() => refusals(command.jids(), &json),
        other => {
            Err(PushError::Ambiguous(format!("its reply is of another kind than the command has: {other}")))
        }
    }
}

/// The jobs that a bulk names, in the order of the batch.
fn refusals(jids: &[Jid], json: &[u8]) -> Result<Pushed, PushError> {
    let ambiguous = |reason: String| PushError::Ambiguous(format!("its reply cannot be read: {reason}"));
    // Nearly always.
    if json == b"{}" {
        return Ok(Pushed::default());
    }
    let mut reasons: BTreeMap<String, String> =
        serde_json::from_slice(json).map_err(|error| ambiguous(excerpt(error.to_string())))?;
    let mut refused = Vec::new();
    for (index, jid) in jids.iter().enumerate() {
        if let Some(reason) = reasons.remove(&jid.to_string()) {
            refused.push(Refusal { index, reason: excerpt(&reason) });
        }
    }
    match reasons.keys().next() {
        None => Ok(Pushed { refused }),
        Some(strange) => Err(ambiguous(format!("it names job {}, which was not sent", excerpt(strange)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        batch::Batch,
        id::Id,
        job::{Job, JobWriter, Terms},
        pair::Pair,
    };

    fn command(jobs: u64) -> Command {
        let writer = JobWriter::new(&Terms::default()).unwrap();
        let id = Id([0; 12]);
        let pair = Pair { root_id: id, root_tcn: 1, scion_id: id, scion_tcn: 2, page_size: 3 };
        let mut batch = Batch::with_room_for(3);
        for number in 0..jobs {
            batch.add(&writer, &Job { jid: Jid::derived(&pair, number, 0), pair, keyed: false }).unwrap();
        }
        batch.into_command().unwrap()
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.to_owned().into())
    }

    #[test]
    fn refused_jobs_are_told_by_their_position() {
        let command = command(3);
        assert_eq!(verdict(&command, bulk("{}")), Ok(Pushed::default()));
        let json = format!(r#"{{"{}":"no\nway","{}":""}}"#, command.jids()[2], command.jids()[0]);
        let refused = vec![
            Refusal { index: 0, reason: String::new() },
            Refusal { index: 2, reason: "no\\nway".to_owned() },
        ];
        assert_eq!(verdict(&command, bulk(&json)), Ok(Pushed { refused }));
    }

    #[test]
    fn an_error_is_about_all_of_them() {
        for command in [command(1), command(2)] {
            let outcome = verdict(&command, Reply::Error("ERR shutdown in progress".to_owned()));
            assert_eq!(outcome, Err(PushError::Refused("ERR shutdown in progress".to_owned())));
        }
        assert_eq!(verdict(&command(1), Reply::Simple("OK".to_owned())), Ok(Pushed::default()));
    }

    #[test]
    fn a_reply_to_something_else_says_nothing_about_the_jobs() {
        let stranger = format!(r#"{{"{}":"x"}}"#, Jid::random());
        for (jobs, reply) in [
            (1, bulk("{}")),
            (1, Reply::Simple("PONG".to_owned())),
            (2, Reply::Simple("OK".to_owned())),
            (2, Reply::Null),
            (2, bulk("[]")),
            (2, bulk("{\"a")),
            (2, bulk(&stranger)),
        ] {
            let outcome = verdict(&command(jobs), reply.clone());
            assert!(matches!(outcome, Err(PushError::Ambiguous(_))), "{reply:?}: {outcome:?}");
        }
    }
}
