//! `GET /v1/{path}/{name}`: the rows of an export as lines of JSON. One page is read when the client has
//! taken the one before.

use std::{io, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use hyper::StatusCode;
use orchestrator_subsystem::{ConsoleError, ExportPages, Exports, wire::ErrorKind};
use orchestrator_supervise::StopToken;
use orchestrator_text::sanitize;
use schemars::SchemaGenerator;
use tokio::time::sleep;

use crate::{
    api_error::ApiError,
    request::{Reply, Request},
    response::{streaming, whole},
    response_limit::ResponsePermit,
    route_entry::{Parameter, STRING},
};

/// Maximum number of concurrent exports on each of the two sockets. They share the store with all other
/// readers.
pub(crate) const EXPORTS_MAX: usize = 4;
/// Type of lines of JSON (github.com/ndjson/ndjson-spec).
pub(crate) const CONTENT_TYPE: &str = "application/x-ndjson";
/// Path of an export, and arguments of those of `provenance`.
pub(crate) const PARAMETERS: &[Parameter] = &[
    ("path", "path", "Path of a child with exports, with or without the root's name: `provenance`", STRING),
    ("path", "name", "Name of the export; of `provenance`: `relations`, `entities`, `locations`", STRING),
    (
        "query",
        "relation",
        "Of `provenance/relations`: `content_in_revision`, `content_in_directory`, `directory_in_revision`, \
         `revision_in_origin` or `revision_before_revision`",
        STRING,
    ),
    (
        "query",
        "id",
        "Of `provenance/relations`: only rows with these sources, 40 hex digits each; at most 1,000",
        SchemaGenerator::subschema_for::<Vec<String>>,
    ),
    (
        "query",
        "reverse",
        "Of `provenance/relations`: the identifiers are destinations",
        SchemaGenerator::subschema_for::<bool>,
    ),
    ("query", "kind", "Of `provenance/entities`: `content`, `directory`, `revision` or `origin`", STRING),
];
/// Time for sending the last line before the connection is closed.
const LAST_LINE_TIME: Duration = Duration::from_millis(200);

/// The query has the arguments of the export.
pub(crate) async fn export(request: &Request, exports: &Exports) -> Reply {
    let (context, [path, name]) = (&request.context, &request.parameters);
    let args: Vec<(String, String)> = request.query("the query may have NAME=VALUE")?;
    let Some(permit) = context.export_limit.take() else {
        context.metrics.export_limit.add(1);
        let message = format!("{} exports are being read: wait for the end of one", context.export_limit.max);
        return Ok(context.no_slot(message).await);
    };
    let mut rows = Rows {
        pages: exports.open(name, &args).map_err(|error| unknown_name(path, error))?,
        closing: context.closing.clone(),
        _permit: permit,
    };
    // An error of the first page has a status.
    let Some(first) = rows.next_page().await.transpose()? else {
        return Ok(whole(StatusCode::OK, CONTENT_TYPE, ""));
    };
    let body = stream::iter([Ok(first)]).chain(rows.into_stream());
    Ok(streaming(CONTENT_TYPE, body))
}

fn unknown_name(path: &str, error: ConsoleError) -> ApiError {
    match error {
        ConsoleError::UnknownVerb(known) => {
            let message = format!("`{}` has no such export: it has {known}", sanitize(path));
            ApiError::new(ErrorKind::NotFound, message)
        }
        error => error.into(),
    }
}

/// Rows of an export that is being read.
struct Rows {
    pages: ExportPages,
    closing: StopToken,
    _permit: ResponsePermit,
}

/// Step of the body of a response.
enum Step {
    Read(Rows),
    /// The last line, with the error, was passed on.
    Abort,
    End,
}

impl Rows {
    async fn next_page(&mut self) -> Option<Result<Bytes, ApiError>> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {
                let message = "the endpoint is stopping: repeat the request";
                Some(Err(ApiError::new(ErrorKind::Unavailable, message)))
            }
            page = self.pages.next() => page.map(|page| page.map(Bytes::from).map_err(ApiError::from)),
        }
    }

    /// After an error the body has a last line with the error, and ends without its last chunk, so that no
    /// client takes the rows for complete.
    fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> {
        stream::unfold(Step::Read(self), |step| async {
            match step {
                Step::Read(mut rows) => match rows.next_page().await? {
                    Ok(page) => Some((Ok(page), Step::Read(rows))),
                    Err(error) => Some((Ok(last_line(&error)), Step::Abort)),
                },
                Step::Abort => {
                    // The server sends what it has while it waits, and drops it at an error.
                    sleep(LAST_LINE_TIME).await;
                    Some((Err(io::Error::other("the rows are not complete")), Step::End))
                }
                Step::End => None,
            }
        })
    }
}

/// Has the form of every error response.
fn last_line(error: &ApiError) -> Bytes {
    // The body has only strings, so serialization cannot fail.
    let mut line = serde_json::to_vec(&error.0).unwrap_or_default();
    line.push(b'\n');
    line.into()
}
