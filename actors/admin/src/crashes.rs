//! `GET /v1/crashes` and `/v1/crashes/{path}`: reports of panics and faults, with the samples of the minute
//! before.

use hyper::StatusCode;
use orchestrator_observe::{CrashLog, SampledMetric, Samples};
use orchestrator_subsystem::wire::{Crashes, ErrorKind};
use orchestrator_supervise::CommandError;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    api_error::ApiError,
    history::{ABSENT, Columns, History},
    history_view::state_names,
    request::{Reply, Request},
    response::json,
};

/// Time before a crash whose samples are in its report, in milliseconds.
const SAMPLED_MS: u64 = 60_000;

/// Parameters of the query.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Args {
    /// Maximum number of reports; older ones are left out.
    limit: Option<usize>,
}

/// Reports of all children, or of the branch at a path.
pub(crate) async fn crashes(request: Request) -> Reply {
    let args: Args = request.query("the query may have limit=NUMBER")?;
    let limit = args.limit.unwrap_or(usize::MAX);
    let (context, [path, _]) = (&request.context, &request.parameters);
    let path = context.tree.resolve(path).ok_or_else(|| CommandError::NotFound(path.clone()))?;
    let log = context.tree.crash_log().clone();
    add_samples(&log, &context.state.history);
    #[expect(clippy::disallowed_methods, reason = "the runtime of each socket has one thread for this")]
    let found = tokio::task::spawn_blocking(move || log.reports(&path, limit)).await;
    let (crashes, left_out) = found.map_err(|_| {
        ApiError::new(ErrorKind::Unavailable, "the endpoint is stopping: ask again once it runs")
    })?;
    Ok(json(StatusCode::OK, &Crashes { crashes, left_out }))
}

/// Adds the samples of the minute before to each report that has none.
pub(crate) fn add_samples(log: &CrashLog, history: &Mutex<History>) {
    for (number, path, at_ms) in log.without_samples() {
        let columns = history.lock().columns(&path, false, &[], at_ms.saturating_sub(SAMPLED_MS));
        log.add_samples(number, samples(columns, at_ms));
    }
}

/// States are left out: the events of a report have their changes.
fn samples(mut columns: Columns, until_ms: u64) -> Samples {
    let ticks = columns.at_ms.partition_point(|at| *at <= until_ms);
    columns.at_ms.truncate(ticks);
    let series =
        columns.series.into_iter().filter(|series| state_names(&series.metric).is_none()).map(|series| {
            let values = series.values.into_iter().take(ticks);
            let values: Vec<_> = values.map(|value| (value != ABSENT).then_some(value)).collect();
            SampledMetric { metric: series.metric, values }
        });
    let series = series.filter(|series| series.values.iter().any(Option::is_some)).collect();
    Samples { at_ms: columns.at_ms, series }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Series;

    #[test]
    fn samples_end_with_the_crash() {
        let series = |metric: &str, values: [i64; 3]| Series {
            path: "o/a".to_owned(),
            metric: metric.to_owned(),
            values: values.to_vec(),
        };
        let columns = Columns {
            at_ms: vec![10, 20, 30],
            series: vec![
                series("child_state", [2, 2, 0]),
                series("mailbox_depth", [1, ABSENT, 9]),
                series("later", [ABSENT, ABSENT, 1]),
            ],
        };
        let depth = SampledMetric { metric: "mailbox_depth".to_owned(), values: vec![Some(1), None] };
        assert_eq!(samples(columns, 20), Samples { at_ms: vec![10, 20], series: vec![depth] });
    }
}
