//! Settlements with an unknown outcome: the rows are read, and a write is repeated only if it has not
//! arrived (CONTRACT CE09, CS08).

use jiff::SignedDuration;
use orchestrator_catalog_rules::{
    cell::NULL,
    path::{self, keys_of},
    rows::Row,
    rule::{Rule, Settlement, WRITTEN},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{claims::Claims, outage::Outage};
use crate::service::RequestError;

/// Maximum number of rows that are read at once, and length of their keys in the path, in bytes.
const CHECKED_MAX: usize = 100;
const CHECKED_BYTES: usize = 2_048;

impl Claims {
    /// Rows for which it is not known whether they are settled, and the path of the query for them.
    pub(super) fn rows_to_check(&self, rule: &Rule) -> Option<(Vec<u64>, String)> {
        let (mut ids, mut keys, mut length) = (Vec::new(), Vec::new(), 0);
        for (id, held) in self.rows.to_read().take(CHECKED_MAX) {
            let key = rule.id(&held.row);
            length += path::encode(&key.to_string()).len();
            ids.push(id);
            keys.push(key);
            if length >= CHECKED_BYTES {
                break;
            }
        }
        (!ids.is_empty()).then(|| (ids, rule.rows_query(&keys)))
    }

    /// Completes rows that have the settled values and repeats the writes of those that still have the
    /// claim; the others are lost.
    pub(super) fn handle_checked(
        &mut self,
        rule: &Rule,
        ids: Vec<u64>,
        answer: Result<Vec<Row>, RequestError>,
        outage: &mut Outage,
    ) {
        let rows = match answer {
            Ok(rows) => rows,
            // The same read would fail again and again, and nothing else be written.
            Err(RequestError::Rejected(reason) | RequestError::NotFound(reason)) => {
                for id in ids {
                    let text = format!(": whether its result was written is not known: {reason}");
                    self.report_unsettled(id, &text);
                    self.forget(id);
                }
                return;
            }
            Err(error) => return outage.failed(error.to_string(), Instant::now()),
        };
        for id in ids {
            let Some(held) = self.rows.get(id) else { continue };
            let key = self.key_of(&held.row);
            let found = rows.iter().find(|row| self.key_of(row) == key);
            let Some((found, settlement)) = found.zip(self.rows.settlement(id)) else {
                self.lose(id);
                continue;
            };
            let ours = rule.has_token_of(found, &held.token);
            if is_settled(found, settlement) {
                self.finish(id);
            } else if !(ours && self.rows.repeat(id, found.get(WRITTEN))) {
                self.lose(id);
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
