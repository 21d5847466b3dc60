//! `GET /v1/history`: metrics of children over the last hour, as columns.

use actix_web::{
    HttpRequest, HttpResponse,
    web::{Data, Query},
};
use orchestrator_supervise::CommandError;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    access::Access,
    api_error::ApiError,
    history::{ABSENT, LINK_STATES, STATES, Series},
};
use orchestrator_subsystem::wire::ErrorKind;

/// Most series in an answer.
const SERIES_MAX: usize = 512;

/// The query's keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Args {
    path: String,
    metric: String,
    since: u64,
    below: bool,
    sum: bool,
}

pub(crate) async fn history(access: Data<Access>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let args = Query::<Args>::from_query(request.query_string()).map_err(|error| {
        bad(format!(
            "{error}: the query may have path=CHILD, metric=NAME,NAME, since=MILLISECONDS, below=true and sum=true"
        ))
    })?;
    let path = access.tree.resolve(&args.path).ok_or_else(|| CommandError::NotFound(args.path.clone()))?;
    let metrics: Vec<String> =
        args.metric.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let is_state = |name: &String| names_of(name).is_some();
    if args.sum && (metrics.is_empty() || metrics.iter().any(is_state)) {
        return Err(
            bad("states have no sum: name metrics that are numbers with metric=NAME,NAME".to_owned()),
        );
    }
    let (columns, usage) = {
        let history = access.setup.history.lock();
        (history.columns(&path, args.below || args.sum, &metrics, args.since), history.usage())
    };
    let columns = if args.sum { columns.summed(&path) } else { columns };
    if columns.series.len() > SERIES_MAX {
        let message = format!(
            "that are {} series, at most {SERIES_MAX} are sent: name metrics, or a child further down",
            columns.series.len()
        );
        return Err(bad(message));
    }
    Ok(HttpResponse::Ok().json(json!({
        "path": path,
        "step_ms": usage.step_ms,
        "oldest_ms": usage.oldest_ms,
        "at_ms": columns.at_ms,
        "series": columns.series.iter().map(shown).collect::<Vec<_>>(),
    })))
}

fn shown(series: &Series) -> Value {
    let names = names_of(&series.metric);
    let value = |value: &i64| match (*value, names) {
        (ABSENT, _) => Value::Null,
        (value, None) => json!(value),
        (value, Some(names)) => json!(usize::try_from(value).ok().and_then(|at| names.get(at))),
    };
    let values: Vec<Value> = series.values.iter().map(value).collect();
    json!({ "path": series.path, "metric": series.metric, "values": values })
}

/// Names in place of the numbers of a metric that is a state.
fn names_of(metric: &str) -> Option<&'static [&'static str]> {
    match metric {
        "child_state" => Some(&STATES),
        "link_state" => Some(&LINK_STATES),
        _ => None,
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
