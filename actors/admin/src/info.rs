//! `GET /v1/info` and `/v1/config`: version, limits and configuration of the process.

use std::collections::BTreeMap;

use hyper::StatusCode;
use orchestrator_observe::now_ms;
use rustix::process::{Resource, getrlimit};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    connection_limit::connections_max,
    handler_context::HandlerContext,
    history,
    process::ProcessUsage,
    request::{Reply, Request},
    response::json,
    role::Caller,
    timestamp::rfc3339,
};
use orchestrator_subsystem::{time_zone, wire::BODY_LIMIT};

/// Description of the process.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Info {
    admin: AdminInfo,
    arbiters: Vec<ArbiterInfo>,
    /// Caller of this request, and its role.
    caller: Caller,
    events: EventNumbers,
    /// Cargo features of the build.
    features: Vec<String>,
    history: HistoryInfo,
    limits: LimitsInfo,
    /// Wall clock, as in RFC 3339.
    now: String,
    pid: u32,
    process: ProcessUsage,
    /// Time when the tree was built, milliseconds since 1970.
    started_at_ms: u64,
    /// Names of the configured subsystems.
    subsystems: Vec<String>,
    /// Time zone in which times without an offset are read, such as the end of a pause.
    time_zone: String,
    /// Age of the tree, milliseconds.
    uptime_ms: u64,
    version: String,
}

/// Configuration of the endpoint.
#[derive(Serialize, JsonSchema)]
struct AdminInfo {
    /// True if the audit log is a file.
    audit_file: bool,
    /// Addresses, `http://IP:PORT and PATH`.
    listens_on: String,
    /// True if requests over TCP need a token.
    tokens: bool,
}

/// An arbiter.
#[derive(Serialize, JsonSchema)]
struct ArbiterInfo {
    name: String,
    /// Time by which its heartbeat is overdue, milliseconds.
    silent_for_ms: u64,
}

/// Numbers of the oldest and the newest event that are kept.
#[derive(Serialize, JsonSchema)]
struct EventNumbers {
    newest: u64,
    oldest: u64,
}

/// Memory and extent of the history.
#[derive(Serialize, JsonSchema)]
struct HistoryInfo {
    dropped_values: u64,
    limit_bytes: usize,
    oldest_ms: Option<u64>,
    retention_ms: u64,
    samples: usize,
    series: usize,
    step_ms: u64,
    used_bytes: usize,
}

/// Limits of the process and of the endpoint.
#[derive(Serialize, JsonSchema)]
struct LimitsInfo {
    /// Largest body of a request, bytes.
    body_bytes: usize,
    /// Connections on each socket.
    connections: usize,
    /// Readers of events on each socket.
    event_clients: usize,
    open_fds: ResourceLimit,
    processes: ResourceLimit,
}

/// A limit of the operating system; null means unlimited.
#[derive(Serialize, JsonSchema)]
struct ResourceLimit {
    hard: Option<u64>,
    soft: Option<u64>,
}

pub(crate) async fn info(request: Request) -> Reply {
    let context = &request.context;
    let program_info = &context.state.program_info;
    let (oldest, _) = context.tree.event_log().page(0, 0);
    let info = Info {
        admin: AdminInfo {
            audit_file: context.state.audit.has_file(),
            listens_on: context.state.addresses.names(),
            tokens: context.state.tokens.is_some(),
        },
        arbiters: arbiters(context),
        caller: request.caller()?,
        events: EventNumbers { newest: context.tree.event_log().newest(), oldest },
        features: program_info.features.clone(),
        history: history_of(context),
        limits: LimitsInfo {
            body_bytes: BODY_LIMIT,
            connections: connections_max(),
            event_clients: context.event_limit.max,
            open_fds: limit(Resource::Nofile),
            processes: limit(Resource::Nproc),
        },
        now: rfc3339(now_ms()),
        pid: std::process::id(),
        process: ProcessUsage::read(),
        started_at_ms: context.started_ms(),
        subsystems: program_info.subsystems.clone(),
        time_zone: time_zone(),
        uptime_ms: context.tree.snapshot().uptime_ms,
        version: program_info.version.clone(),
    };
    Ok(json(StatusCode::OK, &info))
}

pub(crate) async fn config(request: Request) -> Reply {
    Ok(json(StatusCode::OK, &request.context.state.program_info.config))
}

fn history_of(context: &HandlerContext) -> HistoryInfo {
    let usage = context.state.history.lock().usage();
    HistoryInfo {
        dropped_values: usage.dropped_values,
        limit_bytes: history::LIMIT_BYTES,
        oldest_ms: usage.oldest_ms,
        retention_ms: history::RETENTION_MS,
        samples: usage.samples,
        series: usage.series,
        step_ms: history::STEP_MS,
        used_bytes: usage.bytes,
    }
}

fn limit(resource: Resource) -> ResourceLimit {
    let limit = getrlimit(resource);
    ResourceLimit { hard: limit.maximum, soft: limit.current }
}

fn arbiters(context: &HandlerContext) -> Vec<ArbiterInfo> {
    let paths = context.tree.paths();
    let children: Vec<_> = paths.iter().filter_map(|path| context.tree.child(path)).collect();
    let silent: BTreeMap<_, _> = children
        .iter()
        .filter_map(|child| Some((child.arbiter_name()?, child.arbiter_silence().as_millis())))
        .collect();
    let named = |(name, ms): (&str, u128)| ArbiterInfo { name: name.to_owned(), silent_for_ms: ms as u64 };
    silent.into_iter().map(named).collect()
}
