//! `GET /v1/info` and `/v1/config`: version, limits and configuration of the process.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::{
    HttpResponse,
    web::{Data, ReqData},
};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::{
    connection_limit::connections_max, handler_context::HandlerContext, history, process::ProcessUsage,
    role::Caller, timestamp::rfc3339,
};
use orchestrator_subsystem::{time_zone, wire::BODY_LIMIT};
use orchestrator_supervise::now_ms;

pub(crate) async fn info(context: Data<HandlerContext>, caller: ReqData<Arc<Caller>>) -> HttpResponse {
    let (program_info, process) = (&context.state.program_info, ProcessUsage::read());
    let uptime_ms = context.tree.snapshot().uptime_ms;
    let (oldest, _) = context.tree.event_log().page(0, 0);
    HttpResponse::Ok().json(json!({
        "version": program_info.version,
        "pid": std::process::id(),
        "started_at_ms": context.started_ms(),
        "uptime_ms": uptime_ms,
        "now": rfc3339(now_ms()),
        "time_zone": time_zone(),
        "features": program_info.features,
        "subsystems": program_info.subsystems,
        "process": {
            "resident_bytes": process.resident_bytes,
            "threads": process.threads,
            "open_fds": process.open_fds,
        },
        "limits": {
            "open_fds": limit(Resource::Nofile),
            "processes": limit(Resource::Nproc),
            "connections": connections_max(),
            "event_clients": context.event_limit.max,
            "body_bytes": BODY_LIMIT,
        },
        "events": { "oldest": oldest, "newest": context.tree.event_log().newest() },
        "history": history_of(&context),
        "caller": { "who": caller.who, "role": caller.role },
        "arbiters": arbiters(&context),
        "admin": {
            "listens_on": context.state.addresses.names(),
            "tokens": context.state.tokens.is_some(),
            "audit_file": context.state.audit.has_file(),
        },
    }))
}

pub(crate) async fn config(context: Data<HandlerContext>) -> HttpResponse {
    HttpResponse::Ok().json(&context.state.program_info.config)
}

fn history_of(context: &HandlerContext) -> Value {
    let usage = context.state.history.lock().usage();
    json!({
        "limit_bytes": history::LIMIT_BYTES,
        "used_bytes": usage.bytes,
        "retention_ms": history::RETENTION_MS,
        "step_ms": usage.step_ms,
        "oldest_ms": usage.oldest_ms,
        "samples": usage.samples,
        "series": usage.series,
        "dropped_values": usage.dropped_values,
    })
}

/// Null means unlimited.
fn limit(resource: Resource) -> Value {
    let limit = getrlimit(resource);
    json!({ "soft": limit.current, "hard": limit.maximum })
}

/// Every arbiter with the time by which its heartbeat is overdue, in milliseconds.
fn arbiters(context: &HandlerContext) -> Vec<Value> {
    let paths = context.tree.paths();
    let vitals: Vec<_> = paths.iter().filter_map(|path| context.tree.vitals(path)).collect();
    let silent: BTreeMap<_, _> = vitals
        .iter()
        .filter_map(|vitals| Some((vitals.arbiter_name()?, vitals.arbiter_silence().as_millis())))
        .collect();
    silent.into_iter().map(|(name, ms)| json!({ "name": name, "silent_for_ms": ms as u64 })).collect()
}
