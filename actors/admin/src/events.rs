//! `GET /v1/events`: the events of the tree as a stream.

use std::time::Duration;

use actix_web::{
    HttpRequest, HttpResponse, ResponseError,
    http::header::{HeaderName, HeaderValue, RETRY_AFTER},
    web::{Data, Query},
};
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    event_query::{EventArgs, EventQuery},
    event_stream::EventStream,
    handler_context::HandlerContext,
};
use orchestrator_subsystem::wire::ErrorKind;

/// Delay of the response if no slot is free. With the maximum number of connections, it limits such responses to a few hundred a second.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(crate) async fn events(
    context: Data<HandlerContext>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let args = Query::<EventArgs>::from_query(request.query_string()).map_err(|error| {
        let message = format!("{error}: the query may have after=NUMBER, path=CHILD and kind=KIND,KIND");
        ApiError::new(ErrorKind::BadRequest, message)
    })?;
    let last = request.headers().get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let query = EventQuery::new(args.into_inner(), last, &context.tree)?;
    let Some(slot) = context.event_slots.take() else {
        context.metrics.event_limit.add(1);
        // A stop does not wait for the delay.
        let _ = timeout(REFUSAL_DELAY, context.closing.cancelled()).await;
        return Ok(no_slot(context.event_slots.max()));
    };
    let stream = EventStream::new(context.tree.clone(), query, context.closing.clone(), slot);
    Ok(HttpResponse::Ok().content_type("text/event-stream").streaming(stream))
}

fn no_slot(max: usize) -> HttpResponse {
    let message =
        format!("{max} readers of events are connected: close one, or raise admin.max_event_clients");
    let mut answer = ApiError::new(ErrorKind::Unavailable, message).error_response();
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}
