//! Explanation of one identifier: what is stored of it, and which rows with it were refused.

use std::time::Duration;

use orchestrator_subsystem::{
    Answered, ConsoleError, ConsoleReply, Explain, Explained, Item, Progress, text::time_of, wire::Cause,
};
use orchestrator_supervise::{ChildCx, Handle, Handled, Outbox};
use orchestrator_text::sanitize;

use super::{RmqClient, answered};
use crate::{
    messages::{DeadLetter, DeadLetterRequest, ReadRequest},
    row::Sha1Git,
    store::{Occurrence, Query, QueryResult},
};

// Paths of the child that reads the store, and of the one that stores dead letters.
const READER: &str = "orchestrator/provenance/reader";
const LETTERS: &str = "orchestrator/provenance/dead_letters";
/// Dead letters that are searched, the newest.
const LETTERS_MAX: u32 = 1_000;

impl Handle<Explain> for RmqClient {
    fn handle(&mut self, verb: Explain, cx: &mut ChildCx<'_, Self>) -> Handled<Self, Answered<Explain>> {
        // Nothing else has 40 hexadecimal digits.
        let Ok(id) = verb.item.parse::<Sha1Git>() else { return Handled::now(Ok(Explained::default())) };
        let sources =
            Sources { reads: self.reads.clone(), letters: self.route.letters().cloned(), limit: self.limit };
        cx.atomically(self.unless_stopped(async move { sources.explain(id).await }), |_, answer, _| {
            answer.unwrap_or_else(|| Err(ConsoleError::Refused("the program stops".to_owned())))
        })
    }
}

/// Children that know of an identifier.
struct Sources {
    reads: Outbox<ReadRequest>,
    /// None with a broker, whose queue has the letters.
    letters: Option<Outbox<DeadLetterRequest>>,
    limit: Duration,
}

impl Sources {
    async fn explain(&self, id: Sha1Git) -> ConsoleReply<Explained> {
        let mut found = Vec::new();
        let queries = [
            ("content", Query::Contents(vec![id])),
            ("directory", Query::Directories(vec![id])),
            ("revision", Query::Revisions(vec![id])),
            ("origin", Query::Origins(vec![id])),
        ];
        for (kind, query) in queries {
            if let Some(text) = stored(&self.read(query).await?, &id) {
                found.push(item(kind, READER, &id, Progress::Ended, text));
            }
        }
        if let QueryResult::Occurrences(first) = self.read(Query::FindFirst(id)).await?
            && let Some(first) = first.first()
        {
            let place = occurrence(first);
            match found.iter_mut().find(|item| item.kind == "content") {
                Some(content) => content.evidence.push(place),
                // Without a date a content has no row of its own.
                None => found.push(item("content", READER, &id, Progress::Ended, format!("stored: {place}"))),
            }
        }
        found.extend(self.refused(&id).await?);
        let searched = if found.is_empty() { self.searched() } else { String::new() };
        Ok(Explained { found, searched, ..Explained::default() })
    }

    fn searched(&self) -> String {
        let letters = match self.letters {
            Some(_) => format!("the newest {LETTERS_MAX} dead letters"),
            None => "dead letters are in the broker's queue".to_owned(),
        };
        format!("contents, directories, revisions and origins; {letters}")
    }

    async fn read(&self, query: Query) -> ConsoleReply<QueryResult> {
        let answer = self.reads.ask(|reply| ReadRequest { query, reply }, self.limit).await;
        answered(answer, "the store", "reader")
    }

    /// Dead letters whose rows name the identifier.
    async fn refused(&self, id: &Sha1Git) -> ConsoleReply<Vec<Item>> {
        let Some(letters) = &self.letters else { return Ok(Vec::new()) };
        let asked =
            letters.ask(|reply| DeadLetterRequest::List { limit: LETTERS_MAX, reply }, self.limit).await;
        let letters: Vec<DeadLetter> = answered(asked, "the file of dead letters", "child `dead_letters`")?;
        let name = id.to_string();
        let of_id = letters.into_iter().filter(|letter| letter.line.to_string().contains(&name));
        Ok(of_id.map(|letter| dead_letter(id, &letter)).collect())
    }
}

fn dead_letter(id: &Sha1Git, letter: &DeadLetter) -> Item {
    let DeadLetter { times, last_at, reason, line } = letter;
    let mut item = item("dead letter", LETTERS, id, Progress::Waits, "a row with it was refused".to_owned());
    item.since_ms = u64::try_from(*last_at).ok().map(|at| at * 1_000);
    let help = "correct the row, then orchestrator provenance import FILE".to_owned();
    item.causes.push(Cause {
        since_ms: item.since_ms,
        evidence: vec![
            format!("refused {times} times, the last time at {}", time_of(*last_at)),
            sanitize(line.to_string()),
        ],
        ..Cause::new("refused", LETTERS, sanitize(reason), help)
    });
    item
}

fn stored(result: &QueryResult, id: &Sha1Git) -> Option<String> {
    let date =
        |date: &crate::row::Date| format!("stored, with the date {}", time_of(date.micros() / 1_000_000));
    match result {
        QueryResult::Dates(dates) => dates.get(id).map(date),
        QueryResult::Revisions(revisions) => {
            let data = revisions.get(id)?;
            let dated = data.date.as_ref().map_or_else(|| "stored, without a date".to_owned(), date);
            let origin = data.origin.as_ref().map(|origin| format!(", of the origin {origin}"));
            Some(dated + &origin.unwrap_or_default())
        }
        QueryResult::Urls(urls) => urls.get(id).map(|url| format!("stored, {}", sanitize(url))),
        _ => None,
    }
}

fn occurrence(first: &Occurrence) -> String {
    let path = sanitize(&first.path);
    let origin = first.origin.as_ref().map(|url| format!(" of {}", sanitize(url))).unwrap_or_default();
    format!("first in revision {}{origin} at {path}", first.revision)
}

fn item(kind: &str, path: &str, id: &Sha1Git, progress: Progress, text: String) -> Item {
    Item::new(kind, format!("provenance/{id}"), path, progress, text)
}
