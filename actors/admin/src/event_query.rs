//! Which events a reader wants: from where on, of which children, of which kinds. Pure.

use orchestrator_supervise::{Event, EventKind, Tree};

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::ErrorKind;

/// A reader's wish.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventQuery {
    /// The last event that it has seen; none: from now on.
    pub(crate) after: Option<u64>,
    /// Full path of the child at and below which things happen.
    path: Option<String>,
    /// Empty: all.
    kinds: Vec<String>,
}

/// The query's keys.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventArgs {
    after: Option<String>,
    path: Option<String>,
    kind: Option<String>,
}

impl EventQuery {
    /// `last_event_id` is the header: a browser that comes back sends it, with the query of its first visit.
    pub(crate) fn new(args: EventArgs, last_event_id: Option<&str>, tree: &Tree) -> Result<Self, ApiError> {
        let id = last_event_id.or(args.after.as_deref()).map(str::trim).filter(|id| !id.is_empty());
        let after = id.map(|id| {
            id.parse().map_err(|_| bad(format!("`{id}` is no number of an event: send one that `id:` said")))
        });
        let path = args.path.filter(|path| !path.trim_matches('/').is_empty()).map(|path| {
            let unknown = || format!("there is no child `{path}`: `orchestrator tree` lists them all");
            tree.resolve(&path).ok_or_else(|| ApiError::new(ErrorKind::NotFound, unknown()))
        });
        let kinds: Vec<String> =
            args.kind.iter().flat_map(|kinds| kinds.split(',')).map(|kind| kind.trim().to_owned()).collect();
        let kinds: Vec<String> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
        if let Some(odd) = kinds.iter().find(|kind| !EventKind::NAMES.contains(&kind.as_str())) {
            return Err(bad(format!("no kind of event `{odd}`: there are {}", EventKind::NAMES.join(", "))));
        }
        Ok(Self { after: after.transpose()?, path: path.transpose()?, kinds })
    }

    /// Is this one of those?
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let below = |path: &String| {
            event.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let kind = event.kind.name();
        self.path.as_ref().is_none_or(below)
            && (self.kinds.is_empty() || self.kinds.iter().any(|one| one == kind))
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_whole_and_kinds_by_name() {
        let wants = |path: Option<&str>, kinds: &[&str], of: &str| {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            let query = EventQuery { after: None, path: path.map(str::to_owned), kinds };
            query.wants(&Event { seq: 1, at_ms: 0, path: of.to_owned(), kind: EventKind::Paused })
        };
        assert!(wants(None, &[], "o/queue"));
        assert!(wants(Some("o/queue"), &["resumed", "paused"], "o/queue/fetcher_watcher"));
        assert!(wants(Some("o/queue"), &[], "o/queue"));
        assert!(!wants(Some("o/queue"), &[], "o/queue_store") && !wants(Some("o/queue"), &[], "o"));
        assert!(!wants(None, &["resumed"], "o/queue"));
    }
}
