//! `GET /v1/history`: metrics of the last hour as columns.

use hyper::StatusCode;
use orchestrator_observe::LinkStatus;
use orchestrator_supervise::{CommandError, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    api_error::ApiError,
    history::{ABSENT, STEP_MS, Series},
    request::{Reply, Request},
    response::json,
};
use orchestrator_subsystem::wire::ErrorKind;

/// Maximum number of series in a response.
const SERIES_MAX: usize = 512;

/// Parameters of the query.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Args {
    /// Path of the child; default: the root.
    path: String,
    /// Names of metrics, separated by commas; a name selects all its labels. Default: all metrics.
    metric: String,
    /// Only samples from this time on, in milliseconds since 1970.
    since: u64,
    /// Includes the descendants.
    below: bool,
    /// Sums over the child and its descendants, one series for each metric.
    sum: bool,
}

/// Times of samples, and the values of each series at those times.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(crate) struct HistoryView {
    /// Times of the samples, milliseconds since 1970.
    at_ms: Vec<u64>,
    /// Time of the oldest sample, milliseconds since 1970.
    oldest_ms: Option<u64>,
    /// Path of the child that was asked about.
    path: String,
    series: Vec<ShownSeries>,
    /// Time between samples, milliseconds.
    step_ms: u64,
}

/// Values of one metric of a child.
#[derive(Serialize, JsonSchema)]
struct ShownSeries {
    metric: String,
    path: String,
    /// One value for each time; null where there is none.
    values: Vec<Option<ShownValue>>,
}

/// A number, or the name of a state.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ShownValue {
    Number(i64),
    State(&'static str),
}

pub(crate) async fn history(request: Request) -> Reply {
    let context = &request.context;
    let args: Args = request.query(
        "the query may have path=CHILD, metric=NAME,NAME, since=MILLISECONDS, below=true and sum=true",
    )?;
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
    let view = HistoryView {
        at_ms: columns.at_ms,
        oldest_ms: usage.oldest_ms,
        path,
        series: columns.series.into_iter().map(shown).collect(),
        step_ms: STEP_MS,
    };
    Ok(json(StatusCode::OK, &view))
}

fn shown(Series { path, metric, values }: Series) -> ShownSeries {
    let names = state_names(&metric);
    let value = |value: i64| match names {
        _ if value == ABSENT => None,
        None => Some(ShownValue::Number(value)),
        Some(names) => {
            usize::try_from(value).ok().and_then(|at| names.get(at)).copied().map(ShownValue::State)
        }
    };
    let values = values.into_iter().map(value).collect();
    ShownSeries { metric, path, values }
}

/// Names of the values, if the metric is a state.
pub(crate) fn state_names(metric: &str) -> Option<&'static [&'static str]> {
    match metric {
        "child_state" => Some(&State::NAMES),
        "link_state" => Some(&LinkStatus::NAMES),
        _ => None,
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, message)
}
