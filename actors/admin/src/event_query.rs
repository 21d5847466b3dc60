//! The query of `GET /v1/events`: first event, child and kinds. No I/O.

use orchestrator_observe::{Event, EventKind, is_in_branch};
use orchestrator_supervise::{CommandError, Tree};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api_error::ApiError;
use orchestrator_subsystem::wire::ErrorKind;

/// Selection of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventQuery {
    /// Number of the last event that the reader has received. With `None`, only new events are sent.
    pub(crate) after: Option<u64>,
    /// Full path of a child: only events of it and its descendants are sent.
    path: Option<String>,
    /// Kinds of events. If empty, all kinds are sent.
    kinds: Vec<String>,
}

/// Parameters of the query.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EventArgs {
    /// Number of the last received event, for clients that cannot set the header `Last-Event-ID`, which wins.
    #[schemars(with = "u64")]
    after: Option<String>,
    /// Only events of this child and its descendants.
    path: Option<String>,
    /// Only events of these kinds, separated by commas.
    kind: Option<String>,
}

impl EventQuery {
    /// Parses the query. The header `last_event_id`, which a browser sends when it reconnects, wins over
    /// `after`.
    ///
    /// # Errors
    /// A parameter is invalid, or the child does not exist.
    pub(crate) fn new(args: EventArgs, last_event_id: Option<&str>, tree: &Tree) -> Result<Self, ApiError> {
        let id = last_event_id.or(args.after.as_deref()).map(str::trim).filter(|id| !id.is_empty());
        let after = id.map(|id| {
            id.parse().map_err(|_| {
                bad(format!("`{id}` is not the number of an event: send the last `id:` that was received"))
            })
        });
        let path = args
            .path
            .filter(|path| !path.trim_matches('/').is_empty())
            .map(|path| tree.resolve(&path).ok_or_else(|| ApiError::from(CommandError::NotFound(path))));
        let kinds: Vec<String> =
            args.kind.iter().flat_map(|kinds| kinds.split(',')).map(|kind| kind.trim().to_owned()).collect();
        let kinds: Vec<String> = kinds.into_iter().filter(|kind| !kind.is_empty()).collect();
        if let Some(unknown) = kinds.iter().find(|kind| !EventKind::NAMES.contains(&kind.as_str())) {
            return Err(bad(format!(
                "unknown kind of event `{unknown}`: the kinds are {}",
                EventKind::NAMES.join(", ")
            )));
        }
        Ok(Self { after: after.transpose()?, path: path.transpose()?, kinds })
    }

    pub(crate) fn matches(&self, event: &Event) -> bool {
        let kind = event.kind.name();
        self.path.as_ref().is_none_or(|path| is_in_branch(&event.path, path))
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
    fn events_are_selected_by_whole_path_segments_and_kinds() {
        let matches = |path: Option<&str>, kinds: &[&str], of: &str| {
            let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            let query = EventQuery { after: None, path: path.map(str::to_owned), kinds };
            query.matches(&Event { seq: 1, at_ms: 0, path: of.to_owned(), kind: EventKind::Paused })
        };
        assert!(matches(None, &[], "o/queue"));
        assert!(matches(Some("o/queue"), &["resumed", "paused"], "o/queue/fetcher_watcher"));
        assert!(matches(Some("o/queue"), &[], "o/queue"));
        assert!(!matches(Some("o/queue"), &[], "o/queue_store") && !matches(Some("o/queue"), &[], "o"));
        assert!(!matches(None, &["resumed"], "o/queue"));
    }
}
