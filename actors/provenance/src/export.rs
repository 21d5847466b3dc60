//! Exports of the store: listings as lines of JSON, read page by page through the reader.

use std::{collections::VecDeque, time::Duration};

use futures_util::{StreamExt, stream};
use orchestrator_subsystem::{ConsoleError, ExportPages, Exports};
use orchestrator_supervise::{AskError, Outbox};
use orchestrator_text::sanitize;

use crate::{
    json,
    listing::{Listing, Position},
    messages::ReadRequest,
    store::{Page, Query, QueryResult},
};

/// Maximum number of rows in a page.
const PAGE: usize = 1_000;
/// Size of the lines of several small listings that are sent as one page, in bytes.
const PAGE_BYTES: usize = 64 * 1024;
/// Time-out of a page; the stores' own time-outs are shorter.
const TIMEOUT: Duration = Duration::from_secs(900);

/// `reads` leads to the store.
pub(crate) fn exports(reads: Outbox<ReadRequest>) -> Exports {
    Exports::new(move |name, args| {
        let left = Listing::parse(name, args)?.into();
        let export = Export { reads: reads.clone(), left, after: None };
        Ok(pages(export))
    })
}

/// Listings that are left to read.
struct Export {
    reads: Outbox<ReadRequest>,
    left: VecDeque<Listing>,
    /// Position in the first of them.
    after: Option<Position>,
}

fn pages(export: Export) -> ExportPages {
    let next = |mut export: Export| async move {
        let lines = export.next_lines().await?;
        Ok((!lines.is_empty()).then_some((lines, export)))
    };
    stream::try_unfold(export, next).boxed()
}

impl Export {
    /// Reads the next lines; none at the end.
    async fn next_lines(&mut self) -> Result<String, ConsoleError> {
        let mut lines = String::new();
        while let Some(listing) = self.left.front().copied() {
            let query = Query::Page { listing, after: self.after.take(), limit: PAGE };
            let page = self.read(query).await?;
            lines += &json::lines(&page.rows);
            self.after = page.next;
            if self.after.is_none() {
                self.left.pop_front();
            }
            // The identifiers of a request have few rows each.
            if lines.len() >= PAGE_BYTES || (self.after.is_some() && !lines.is_empty()) {
                break;
            }
        }
        Ok(lines)
    }

    async fn read(&self, query: Query) -> Result<Page, ConsoleError> {
        let answer = self.reads.ask(|reply| ReadRequest { query, reply }, TIMEOUT).await;
        let answer = answer.map_err(|error| match error {
            AskError::Lost => "the reader was restarted before it answered: repeat the request".to_owned(),
            other => other.to_string(),
        });
        match answer.and_then(|answer| answer.map_err(|error| error.to_string())) {
            Ok(QueryResult::Page(page)) => Ok(page),
            Ok(_) => Err(ConsoleError::Refused("the store answered another question".to_owned())),
            Err(reason) => Err(ConsoleError::Refused(sanitize(reason))),
        }
    }
}
