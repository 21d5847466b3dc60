//! `GET /v1/info` and `/v1/config`: what runs here, and with what.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::{
    HttpResponse,
    web::{Data, ReqData},
};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};

use crate::{
    access::Access, connection_limit::connections_max, history, process::Process, role::Caller, timestamp,
};
use orchestrator_subsystem::wire::BODY_LIMIT;

pub(crate) async fn info(access: Data<Access>, caller: ReqData<Arc<Caller>>) -> HttpResponse {
    let (about, process) = (&access.setup.about, Process::read());
    let uptime_ms = access.tree.snapshot().uptime_ms;
    let (oldest, _) = access.tree.event_log().page(0, 0);
    HttpResponse::Ok().json(json!({
        "version": about.version,
        "pid": std::process::id(),
        "started_at_ms": access.started_ms(),
        "uptime_ms": uptime_ms,
        "now": timestamp::rfc3339(std::time::SystemTime::now()),
        "features": about.features,
        "subsystems": about.subsystems,
        "process": {
            "resident_bytes": process.resident_bytes,
            "threads": process.threads,
            "open_fds": process.open_fds,
        },
        "limits": {
            "open_fds": limit(Resource::Nofile),
            "processes": limit(Resource::Nproc),
            "connections": connections_max(),
            "event_clients": access.seats.max(),
            "body_bytes": BODY_LIMIT,
        },
        "events": { "oldest": oldest, "newest": access.tree.event_log().newest() },
        "history": history_of(&access),
        "caller": { "who": caller.who, "role": caller.role },
        "arbiters": arbiters(&access),
        "admin": {
            "listens_on": access.setup.places.names(),
            "tokens": access.setup.tokens.is_some(),
            "audit_file": access.setup.audit.has_file(),
        },
    }))
}

pub(crate) async fn config(access: Data<Access>) -> HttpResponse {
    HttpResponse::Ok().json(&access.setup.about.config)
}

fn history_of(access: &Access) -> Value {
    let usage = access.setup.history.lock().usage();
    json!({
        "limit_bytes": history::LIMIT_BYTES,
        "used_bytes": usage.bytes,
        "kept_ms": history::KEPT_MS,
        "step_ms": usage.step_ms,
        "oldest_ms": usage.oldest_ms,
        "samples": usage.samples,
        "series": usage.series,
        "left_out_values": usage.left_out,
    })
}

/// None where there is no limit.
fn limit(resource: Resource) -> Value {
    let limit = getrlimit(resource);
    json!({ "soft": limit.current, "hard": limit.maximum })
}

/// Every arbiter, and for how long its heartbeat is overdue.
fn arbiters(access: &Access) -> Vec<Value> {
    let paths = access.tree.paths();
    let vitals: Vec<_> = paths.iter().filter_map(|path| access.tree.vitals(path)).collect();
    let silent: BTreeMap<_, _> = vitals
        .iter()
        .filter_map(|vitals| Some((vitals.arbiter_name()?, vitals.arbiter_silence().as_millis())))
        .collect();
    silent.into_iter().map(|(name, ms)| json!({ "name": name, "silent_for_ms": ms as u64 })).collect()
}
