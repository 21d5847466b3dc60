//! `GET /v1/events`: the events of the tree as a stream.

use crate::{
    event_query::{EventArgs, EventQuery},
    event_stream::EventStream,
    request::{Reply, Request},
    response::streaming,
};

pub(crate) async fn events(request: Request) -> Reply {
    let context = &request.context;
    let args: EventArgs = request.query("the query may have after=NUMBER, path=CHILD and kind=KIND,KIND")?;
    let query = EventQuery::new(args, request.header("last-event-id"), &context.tree)?;
    let Some(permit) = context.event_limit.take() else {
        context.metrics.event_limit.add(1);
        let max = context.event_limit.max;
        let advice = "close one, or raise admin.max_event_clients";
        return Ok(context.no_slot(format!("{max} readers of events are connected: {advice}")).await);
    };
    let stream = EventStream::new(context.tree.clone(), query, context.closing.clone(), permit);
    Ok(streaming("text/event-stream", stream.chunks()))
}
