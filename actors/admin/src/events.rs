//! `GET /v1/events`: what happens in the tree, as it happens.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::header::{HeaderName, HeaderValue, RETRY_AFTER},
    web::{Data, Query},
};
use tokio::time::timeout;

use crate::{
    access::Access,
    api_error::ApiError,
    event_query::{EventArgs, EventQuery},
    event_stream::EventStream,
};
use orchestrator_subsystem::wire::ErrorKind;

/// How long one who finds no seat waits for that answer. It bounds what those who knock again and again can take from the
/// work: a few hundred answers a second, for a socket has [`connections_max`](crate::server::connections_max) connections.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(crate) async fn events(access: Data<Access>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let args = Query::<EventArgs>::from_query(request.query_string()).map_err(|error| {
        let message = format!("{error}: the query may have after=NUMBER, path=CHILD and kind=KIND,KIND");
        ApiError::new(ErrorKind::BadRequest, message)
    })?;
    let last = request.headers().get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let query = EventQuery::new(args.into_inner(), last, &access.tree)?;
    let Some(seat) = access.seats.take() else {
        access.tally.crowded.add(1);
        // A stop does not wait for it.
        let _ = timeout(REFUSAL_DELAY, access.closing.cancelled()).await;
        return Ok(crowded(access.seats.max()));
    };
    let stream = EventStream::new(access.tree.clone(), query, access.closing.clone(), seat);
    Ok(HttpResponse::Ok().content_type("text/event-stream").streaming(stream))
}

fn crowded(max: usize) -> HttpResponse {
    let message =
        format!("{max} readers of events are connected here: close one, or raise admin.max_event_clients");
    let mut answer = ApiError::new(ErrorKind::Unavailable, message).error_response();
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}
