//! `GET /v1/tree` and `/v1/tree/{path}`: the tree at present or at a past time.

use hyper::{StatusCode, header::ACCEPT};
use orchestrator_subsystem::{
    Console,
    wire::{ErrorKind, TreeSnapshot},
};
use orchestrator_supervise::CommandError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    accept_header::prefers_text,
    api_error::ApiError,
    ascii,
    history::rewind,
    request::{Reply, Request},
    response::{Response, json, text},
    shown_state, why,
};

/// Parameters of the query; others are ignored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Args {
    /// Shows the tree at the last sample before this time, in milliseconds since 1970.
    at: Option<u64>,
}

/// The whole tree, or the branch at a path.
pub(crate) async fn tree(request: Request) -> Reply {
    let [path, _] = &request.parameters;
    if path.is_empty() {
        return Ok(show(&snapshot(&request)?, &request));
    }
    let unknown = || CommandError::NotFound(path.clone());
    let path = request.context.tree.resolve(path).ok_or_else(unknown)?;
    let snapshot = snapshot(&request)?;
    let root = snapshot.root.find(&path).cloned().ok_or_else(unknown)?;
    Ok(show(&TreeSnapshot { root, ..snapshot }, &request))
}

/// The present tree, or with `?at=` the tree at that time.
fn snapshot(request: &Request) -> Result<TreeSnapshot, ApiError> {
    let context = &request.context;
    let args: Args = request.query("the query may have at=MILLISECONDS, counted from 1970")?;
    let mut snapshot = context.tree.snapshot();
    let consoles = context.tree.all_attached::<Console>().into_iter().map(|(path, _)| path).collect();
    shown_state::mark_consoles(&mut snapshot.root, &consoles);
    let Some(at_ms) = args.at else {
        let causes: Vec<_> = why::causes(context, &snapshot).collect();
        shown_state::fill(&mut snapshot.root, &causes);
        return Ok(snapshot);
    };
    let history = context.state.history.lock();
    let Some((at_ms, values)) = history.at(at_ms) else {
        let oldest = history.usage().oldest_ms;
        let begins = oldest.map_or_else(|| "has no sample yet".to_owned(), |ms| format!("begins at {ms}"));
        return Err(ApiError::new(
            ErrorKind::NotFound,
            format!("the history {begins}: ask for a later time"),
        ));
    };
    rewind(&mut snapshot, at_ms, &values);
    shown_state::fill(&mut snapshot.root, &[]);
    Ok(snapshot)
}

fn show(snapshot: &TreeSnapshot, request: &Request) -> Response {
    if prefers_text(request.header(ACCEPT).unwrap_or_default()) {
        text(StatusCode::OK, ascii::render(snapshot))
    } else {
        json(StatusCode::OK, snapshot)
    }
}
