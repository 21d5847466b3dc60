//! `GET /v1/history`: metrics of the last hour as columns.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Query},
};
use orchestrator_supervise::CommandError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api_error::ApiError,
    handler_context::HandlerContext,
    history::{ABSENT, LINK_STATES, STATES, Series},
};
use orchestrator_subsystem::wire::ErrorKind;

/// Maximum number of series in a response.
const SERIES_MAX: usize = 512;

/// Parameters of the query.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Args {
    path: String,
    metric: String,
    since: u64,
    below: bool,
    sum: bool,
}

pub(crate) async fn history(
    context: Data<HandlerContext>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let args = Query::<Args>::from_query(request.query_string()).map_err(|error| {
        bad(format!(
            "{error}: the query may have path=CHILD, metric=NAME,NAME, since=MILLISECONDS, below=true and sum=true"
        ))
    })?;
    let path = context.tree.resolve(&args.path).ok_or_else(|| CommandError::NotFound(args.path.clone()))?;
    let metrics: Vec<String> =
        args.metric.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let is_state = |name: &String| state_names(name).is_some();
    if args.sum && (metrics.is_empty() || metrics.iter().any(is_state)) {
        return Err(bad("states cannot be added: select numeric metrics with metric=NAME,NAME".to_owned()));
    }
    let (columns, usage) = {
        let history = context.state.history.lock();
        let count = if args.sum { metrics.len() } else { history.count(&path, args.below, &metrics) };
        if count > SERIES_MAX {
            return Err(bad(format!(
                "the query selects {count} series, more than {SERIES_MAX}: select metrics, or a child further down the tree"
            )));
        }
        let columns = if args.sum {
            history.sums(&path, &metrics, args.since)
        } else {
            history.columns(&path, args.below, &metrics, args.since)
        };
        (columns, history.usage())
    };
    Ok(HttpResponse::Ok().json(json!({
        "path": path,
        "step_ms": usage.step_ms,
        "oldest_ms": usage.oldest_ms,
        "at_ms": columns.at_ms,
        "series": columns.series.iter().map(series_json).collect::<Vec<_>>(),
    })))
}

fn series_json(series: &Series) -> Value {
    let names = state_names(&series.metric);
    let value = |value: &i64| match (*value, names) {
        (ABSENT, _) => Value::Null,
        (value, None) => json!(value),
        (value, Some(names)) => json!(usize::try_from(value).ok().and_then(|at| names.get(at))),
    };
    let values: Vec<Value> = series.values.iter().map(value).collect();
    json!({ "path": series.path, "metric": series.metric, "values": values })
}

/// Names of the values, if the metric is a state.
pub(crate) fn state_names(metric: &str) -> Option<&'static [&'static str]> {
    match metric {
        "child_state" => Some(&STATES),
        "link_state" => Some(&LINK_STATES),
        _ => None,
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
