//! Settlements with an unknown outcome: the rows are read, and a write is repeated only if it has not
//! arrived (CONTRACT CE09, CS08).

use futures_util::{FutureExt, future::LocalBoxFuture};
use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::Instant;

use super::{Agent, read, request::RequestResult};
use crate::{
    cell::NULL,
    handler::{Handler, Row},
    path,
    rule::{Settlement, WRITTEN},
    service::{RequestError, Service},
    state_change::keys_of,
};

/// Maximum number of rows that are read at once, and length of their keys in the path, in bytes.
const CHECKED_MAX: usize = 100;
const CHECKED_BYTES: usize = 2_048;

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// Reads rows for which it is not known whether they are settled.
    pub(super) fn check_unknown(&self) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let (mut ids, mut keys, mut length) = (Vec::new(), Vec::new(), 0);
        for (id, held) in self.rows.to_read().take(CHECKED_MAX) {
            let key = self.rule.id(&held.row);
            length += path::encode(&key.to_string()).len();
            ids.push(id);
            keys.push(key);
            if length >= CHECKED_BYTES {
                break;
            }
        }
        if ids.is_empty() {
            return None;
        }
        let path = self.rule.rows_query(&keys);
        let service = self.context.service.clone();
        let check = async move {
            let answer = read(&service, path).await;
            RequestResult::Checked(ids, answer)
        };
        Some(check.boxed_local())
    }

    /// Completes rows that have the settled values and repeats the writes of those that still have the
    /// claim; the others are lost.
    pub(super) fn handle_checked(&mut self, ids: Vec<u64>, answer: Result<Vec<Row>, RequestError>) {
        let rows = match answer {
            Ok(rows) => rows,
            // The same read would fail again and again, and nothing else be written.
            Err(RequestError::Rejected(reason) | RequestError::NotFound(reason)) => {
                for id in ids {
                    let Some(held) = self.rows.get(id) else { continue };
                    let row = self.rule.id(&held.row);
                    let text = "whether its result was written is not known";
                    self.reporter.report_unsettled(format!("{} = {row}: {text}: {reason}", self.rule.key()));
                    self.forget_row(id);
                }
                return;
            }
            Err(error) => {
                self.write_outage.failed(error.to_string(), Instant::now());
                return;
            }
        };
        for id in ids {
            let Some(held) = self.rows.get(id) else { continue };
            let key = self.key_of(&held.row);
            let found = rows.iter().find(|row| self.key_of(row) == key);
            let Some((found, settlement)) = found.zip(self.rows.settlement(id)) else {
                self.lose_claim(id);
                continue;
            };
            let ours = self.rule.has_token_of(found, &held.token);
            if is_settled(found, settlement) {
                self.finish_row(id);
            } else if !(ours && self.rows.repeat(id, found.get(WRITTEN))) {
                self.lose_claim(id);
            }
        }
    }
}

fn is_settled(found: &Row, settlement: &Settlement) -> bool {
    let keys = keys_of(&settlement.path);
    let mut targets = settlement.update.iter().filter(|(name, _)| !keys.contains(name));
    targets.all(|(name, value)| {
        let found = found.get(name).unwrap_or(&NULL);
        found == value || is_same_time(found, value)
    })
}

/// The server returns the time in another format, without an offset or less precise if the column's type is.
fn is_same_time(found: &Value, written: &Value) -> bool {
    let Some((found, written)) = found.as_str().zip(written.as_str()) else { return false };
    let precision = SignedDuration::from_secs(1);
    path::parse_instant(written).is_some_and(|written| {
        path::parse_instant(found).is_none_or(|found| found.duration_since(written).abs() <= precision)
    })
}
