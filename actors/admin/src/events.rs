//! `GET /v1/events`: the events of the tree as a stream.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::HeaderName,
    web::{Data, Query},
};

use crate::{
    api_error::ApiError,
    event_query::{EventArgs, EventQuery},
    event_stream::EventStream,
    handler_context::HandlerContext,
};
use orchestrator_subsystem::wire::ErrorKind;

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
    let Some(permit) = context.event_limit.take() else {
        context.metrics.event_limit.add(1);
        let max = context.event_limit.max;
        let advice = "close one, or raise admin.max_event_clients";
        return Ok(context.no_slot(format!("{max} readers of events are connected: {advice}")).await);
    };
    let stream = EventStream::new(context.tree.clone(), query, context.closing.clone(), permit);
    Ok(HttpResponse::Ok().content_type("text/event-stream").streaming(stream))
}
