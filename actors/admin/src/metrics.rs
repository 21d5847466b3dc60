//! `GET /metrics`: everything from vitals, nothing counted here.

use std::collections::BTreeMap;

use actix_web::{HttpResponse, web::Data};
use orchestrator_supervise::{MailboxSnapshot, MetricKind, MetricSnapshot, NodeSnapshot, Tree};

use crate::{
    access::Access,
    exposition::{Exposition, Kind, name_part},
    process::Process,
};

pub(crate) async fn metrics(access: Data<Access>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(text(&access.tree))
}

fn text(tree: &Tree) -> String {
    let snapshot = tree.snapshot();
    let mut out = Exposition::default();
    let uptime = snapshot.uptime_ms as f64 / 1e3;
    out.add(Kind::Gauge, "orchestrator_process_uptime_seconds", "Age of the tree.", &[], uptime);
    process(&mut out, Process::read());
    arbiters(&mut out, tree);
    snapshot.root.walk(&mut |node| {
        child(&mut out, node);
        histograms(&mut out, tree, node);
    });
    out.render()
}

fn process(out: &mut Exposition, process: Process) {
    let metrics = [
        ("orchestrator_process_resident_bytes", "Memory in use, resident set size.", process.resident_bytes),
        ("orchestrator_process_threads", "Threads of the process.", process.threads),
        ("orchestrator_process_open_fds", "Open file descriptors.", process.open_fds),
    ];
    for (name, help, value) in metrics {
        if let Some(value) = value {
            out.add(Kind::Gauge, name, help, &[], value);
        }
    }
}

fn arbiters(out: &mut Exposition, tree: &Tree) {
    let vitals: Vec<_> = tree.paths().iter().filter_map(|path| tree.vitals(path)).collect();
    let silence: BTreeMap<_, _> = vitals
        .iter()
        .filter_map(|vitals| Some((vitals.arbiter_name()?, vitals.arbiter_silence().as_secs_f64())))
        .collect();
    let help = "Time that an arbiter's heartbeat is overdue: over a second, something blocks it.";
    for (name, seconds) in silence {
        out.add(Kind::Gauge, "orchestrator_arbiter_silence_seconds", help, &[("arbiter", name)], seconds);
    }
}

fn child(out: &mut Exposition, node: &NodeSnapshot) {
    let path = [("path", node.path.as_str())];
    let state = |name: &str| u8::from(node.state == name);
    let up = state("running") + state("paused");
    let mut gauge = |name: &str, help: &str, value: u64| out.add(Kind::Gauge, name, help, &path, value);
    gauge("orchestrator_child_up", "1 while the child runs or is paused.", up.into());
    gauge(
        "orchestrator_child_paused",
        "1 while an operator holds its intake closed.",
        state("paused").into(),
    );
    gauge("orchestrator_child_stuck", "1 when work in progress or its arbiter hangs.", node.stuck.into());
    // A child's vitals hold what its supervisor has left: one metric for all siblings.
    if let Some(child) = node.children.first() {
        let help = "Restarts that the supervisor may still spend in the running period.";
        gauge("orchestrator_supervisor_budget_left", help, child.budget_left.into());
    }
    // A connection that nobody wants at present is no outage.
    if let Some(link) = node.link.as_ref().filter(|link| link.state != "idle") {
        let labels = [path[0], ("kind", link.kind.as_str())];
        let up = u8::from(link.state == "up");
        out.add(Kind::Gauge, "orchestrator_link_up", "1 while the edge's connection is up.", &labels, up);
    }
    let mut counter = |name: &str, help: &str, value: u64| out.add(Kind::Counter, name, help, &path, value);
    counter(
        "orchestrator_child_restarts_total",
        "Starts after the first, planned ones included.",
        node.restarts,
    );
    counter(
        "orchestrator_child_stale_total",
        "Handles of former incarnations that were dropped.",
        node.stale,
    );
    node.mailboxes.iter().for_each(|one| mailbox(out, node, one));
    node.metrics.iter().for_each(|one| metric(out, node, one));
}

fn mailbox(out: &mut Exposition, node: &NodeSnapshot, mailbox: &MailboxSnapshot) {
    let labels = [("path", node.path.as_str()), ("mailbox", mailbox.name.as_str())];
    let mut add = |kind, name: &str, help: &str, value: u64| {
        out.add(kind, &format!("orchestrator_mailbox_{name}"), help, &labels, value);
    };
    add(Kind::Gauge, "depth", "Messages waiting.", mailbox.depth as u64);
    add(Kind::Gauge, "capacity", "The bound.", mailbox.capacity as u64);
    add(Kind::Gauge, "high_water", "Most messages that ever waited at once.", mailbox.high_water as u64);
    add(Kind::Counter, "refused_total", "Messages refused because the mailbox was full.", mailbox.refused);
    add(Kind::Counter, "handled_total", "Messages handed to a handler.", mailbox.handled);
    add(Kind::Counter, "purged_total", "Messages dropped unhandled by a purge.", mailbox.purged);
}

fn histograms(out: &mut Exposition, tree: &Tree, node: &NodeSnapshot) {
    let Some(vitals) = tree.vitals(&node.path) else { return };
    for timing in vitals.timings() {
        let name = timing_name(&node.path, timing.name());
        out.histogram(&name, timing.help(), &[("path", &node.path), timing.label()], timing.histogram());
    }
    for (mailbox, gauge) in vitals.mailboxes() {
        for stats in gauge.message_stats() {
            let labels = [("path", node.path.as_str()), ("mailbox", mailbox), ("message", stats.name)];
            let help = "Time between sending and handling.";
            out.histogram("orchestrator_message_wait_seconds", help, &labels, &stats.wait);
            out.histogram(
                "orchestrator_message_handling_seconds",
                "Time in the handler.",
                &labels,
                &stats.handling,
            );
        }
    }
}

fn metric(out: &mut Exposition, node: &NodeSnapshot, metric: &MetricSnapshot) {
    let name = metric_name(&node.path, metric);
    let kind = match metric.kind {
        MetricKind::Counter => Kind::Counter,
        MetricKind::Gauge => Kind::Gauge,
    };
    let mut labels = vec![("path", node.path.as_str())];
    labels.extend(metric.label.as_ref().map(|label| (label.name.as_str(), label.value.as_str())));
    out.add(kind, &name, metric.help, &labels, metric.value);
}

/// `orchestrator_<subsystem>_<name>_seconds`.
fn timing_name(path: &str, name: &str) -> String {
    format!("orchestrator_{}_{}_seconds", subsystem(path), name_part(name))
}

/// The first segment below the root.
fn subsystem(path: &str) -> String {
    name_part(path.split('/').nth(1).unwrap_or("root"))
}

/// `orchestrator_<subsystem>_<name>_<unit>[_total]`; a unit that the name ends in is not repeated.
fn metric_name(path: &str, metric: &MetricSnapshot) -> String {
    let subsystem = subsystem(path);
    let mut name = name_part(&metric.name);
    if metric.kind == MetricKind::Counter {
        name = name.strip_suffix("_total").map(str::to_owned).unwrap_or(name);
    }
    let unit = name_part(&metric.unit);
    let told = unit.is_empty() || name == unit || name.ends_with(&format!("_{unit}"));
    let unit = if told { String::new() } else { format!("_{unit}") };
    let total = if metric.kind == MetricKind::Counter { "_total" } else { "" };
    format!("orchestrator_{subsystem}_{name}{unit}{total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_named_after_their_subsystem_and_in_seconds() {
        let name = timing_name("o/provenance/rmq_client", "call_duration");
        assert_eq!(name, "orchestrator_provenance_call_duration_seconds");
    }

    #[test]
    fn metrics_are_named_after_their_subsystem() {
        let named = |path: &str, name: &str, unit: &str, kind| {
            metric_name(
                path,
                &MetricSnapshot {
                    name: name.into(),
                    unit: unit.into(),
                    kind,
                    help: "",
                    label: None,
                    value: 0,
                },
            )
        };
        let cases = [
            (
                "o/queue/store",
                "hand_outs",
                "jobs",
                MetricKind::Counter,
                "orchestrator_queue_hand_outs_jobs_total",
            ),
            ("o/queue/store", "jobs", "jobs", MetricKind::Counter, "orchestrator_queue_jobs_total"),
            ("o/queue", "done_total", "", MetricKind::Counter, "orchestrator_queue_done_total"),
            ("o/queue", "commit_ms", "ms", MetricKind::Gauge, "orchestrator_queue_commit_ms"),
            ("o", "age", "seconds", MetricKind::Gauge, "orchestrator_root_age_seconds"),
        ];
        for (path, name, unit, kind, expected) in cases {
            assert_eq!(named(path, name, unit, kind), expected);
        }
    }
}
