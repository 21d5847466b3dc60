//! Conditional state change (CONTRACT CO01 to CO03): read candidates, plan, and write the plan
//! unless another agent was faster. Pure: the caller sends the requests.

use bytes::Bytes;
use orchestrator_catalog_rules::{
    path::keys_of,
    rows::{Row, body_of, key, rows},
};

use crate::service::{CatalogResponse, Get, Put, RequestError};

/// A candidate and its update.
pub(crate) type Planned = (Row, Row);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ChangeResult {
    /// The catalog still has the ETag at which there was nothing to do; no plan was made.
    Unmodified {
        /// ETag of the catalog.
        etag: String,
    },
    /// There was nothing to do.
    Empty {
        /// ETag of the catalog, for the next start.
        etag: Option<String>,
    },
    /// Rows were written.
    Changed(Change),
    /// The request failed and nothing was written.
    Failed(RequestError),
    /// The write has an unknown outcome.
    Unknown {
        /// Candidates with their updates.
        plan: Vec<Planned>,
        /// Reason of the failure.
        reason: String,
    },
}

/// Written rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// Candidates with their updates that the server wrote.
    pub changed: Vec<Planned>,
    /// Candidates that the server did not return: another agent was faster, or they were deleted
    /// (CONTRACT CX05).
    pub passed_over: Vec<Planned>,
}

/// The last response to the query.
#[derive(Debug, Clone, PartialEq)]
struct CachedResponse {
    path: String,
    etag: String,
    body: Bytes,
}

/// One query with its update, run repeatedly. Caches the last response to the query.
#[derive(Debug, Clone)]
pub(crate) struct StateChange {
    query: String,
    update: String,
    /// Columns of the update that identify its rows.
    keys: Vec<String>,
    /// The write carries `If-Match`.
    guarded: bool,
    cache: bool,
    cached: Option<CachedResponse>,
    last_etag: Option<String>,
}

impl StateChange {
    /// `update` is an `attributegroup` or `entity` path; see [`keys_of`].
    pub(crate) fn new(query: impl Into<String>, update: impl Into<String>, guarded: bool) -> Self {
        let update = update.into();
        Self {
            query: query.into(),
            keys: keys_of(&update),
            update,
            guarded,
            cache: true,
            cached: None,
            last_etag: None,
        }
    }

    /// Disables conditional reads.
    #[must_use]
    pub(crate) fn without_cache(self) -> Self {
        Self { cache: false, ..self }
    }

    /// Replaces the query.
    pub(crate) fn set_query(&mut self, query: String) {
        self.query = query;
    }

    pub(crate) fn last_etag(&self) -> Option<&str> {
        self.last_etag.as_deref()
    }

    pub(crate) fn cached_bytes(&self) -> usize {
        self.cached.as_ref().map_or(0, |cached| cached.body.len())
    }

    /// The read is conditional (`If-None-Match`) only for the query that the ETag belongs to.
    pub(crate) fn read(&self) -> Get {
        let cached = self.cached.as_ref().filter(|cached| self.cache && cached.path == self.query);
        Get { path: self.query.clone(), if_none_match: cached.map(|cached| cached.etag.clone()) }
    }

    /// Handles the response to the read and returns the rows whose updates are to be planned.
    ///
    /// # Errors
    /// The change ends: the read failed, there are no rows, or the catalog still has the ETag `idle`.
    pub(crate) fn handle_read(
        &mut self,
        answer: Result<CatalogResponse, RequestError>,
        idle: Option<&str>,
    ) -> Result<Vec<Row>, ChangeResult> {
        let reply = answer.map_err(ChangeResult::Failed)?;
        let (etag, body) = match reply {
            CatalogResponse::NotModified { etag } => {
                let Some(cached) = self.cached.as_ref().filter(|cached| cached.path == self.query) else {
                    let text = "the server answered 304 to an unconditional request";
                    return Err(ChangeResult::Failed(RequestError::Unavailable(text.to_owned())));
                };
                // The ETag in the 304 is the newer one.
                (etag.or_else(|| Some(cached.etag.clone())), cached.body.clone())
            }
            CatalogResponse::Rows { etag, body } => (etag, body),
        };
        self.last_etag.clone_from(&etag);
        self.cached = match &etag {
            Some(etag) if self.cache => {
                Some(CachedResponse { path: self.query.clone(), etag: etag.clone(), body: body.clone() })
            }
            _ => None,
        };
        if let Some(idle) = idle
            && etag.as_deref() == Some(idle)
        {
            return Err(ChangeResult::Unmodified { etag: idle.to_owned() });
        }
        match rows(&body) {
            Ok(rows) if rows.is_empty() => Err(ChangeResult::Empty { etag }),
            Ok(rows) => Ok(rows),
            Err(reason) => Err(ChangeResult::Failed(RequestError::Rejected(reason))),
        }
    }

    /// Returns the write of a plan: candidates with their updates. It uses `If-Match` only for guarded rules.
    ///
    /// # Errors
    /// The plan is empty: such a write would change the catalog and wake all agents (CONTRACT CX03).
    pub(crate) fn write(&self, plan: &[Planned]) -> Result<Put, ChangeResult> {
        if plan.is_empty() {
            return Err(ChangeResult::Empty { etag: self.last_etag.clone() });
        }
        let updates: Vec<_> = plan.iter().map(|(_, update)| update).collect();
        let if_match = self.last_etag.clone().filter(|_| self.guarded);
        Ok(Put { path: self.update.clone(), if_match, body: body_of(&updates) })
    }

    /// Handles the response to the write of `plan`.
    pub(crate) fn handle_write(
        &self,
        plan: Vec<Planned>,
        answer: Result<Bytes, RequestError>,
    ) -> ChangeResult {
        match answer {
            Ok(body) => match rows(&body) {
                Ok(returned) => {
                    let (changed, passed_over) = self.split_by_response(plan, &returned);
                    ChangeResult::Changed(Change { changed, passed_over })
                }
                Err(reason) => ChangeResult::Unknown { plan, reason },
            },
            Err(RequestError::OutcomeUnknown(reason)) => ChangeResult::Unknown { plan, reason },
            Err(error) => ChangeResult::Failed(error),
        }
    }

    fn split_by_response(&self, plan: Vec<Planned>, returned: &[Row]) -> (Vec<Planned>, Vec<Planned>) {
        // Without keys all rows count as written, as with the original.
        if self.keys.is_empty() {
            return (plan, Vec::new());
        }
        let confirmed: std::collections::HashSet<_> =
            returned.iter().map(|row| key(row, &self.keys)).collect();
        plan.into_iter().partition(|(_, update)| confirmed.contains(&key(update, &self.keys)))
    }
}

#[cfg(test)]
mod tests;
