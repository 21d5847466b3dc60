//! `GET /metrics`: the values of all vitals in the Prometheus text format.

use std::{collections::BTreeMap, sync::Arc};

use hyper::StatusCode;
use orchestrator_observe::{
    Histogram, LinkStatus, MailboxSnapshot, MetricKind, MetricSnapshot, NodeSnapshot, Timing,
};
use orchestrator_supervise::{ChildState, MessageStats, StandardStream, State, Tree};

use crate::{
    exposition::{Buckets, Exposition, Kind, Labels, name_part},
    handler_context::HandlerContext,
    process::ProcessUsage,
    request::{Reply, Request},
    response::whole,
    why,
};

/// Buckets of subsystems' durations: from 256 us to 67 s in steps of 4, or from 256 ms to 19 h.
const TIMING_BUCKETS: [usize; 10] = [8, 10, 12, 14, 16, 18, 20, 22, 24, 26];
/// Buckets of messages: from 1 ms to 4 s in steps of 16, since most histograms are theirs.
const MESSAGE_BUCKETS: [usize; 4] = [10, 14, 18, 22];
/// Name of an actor's mailbox. The reader of an inbox does not tell how long it handles a message.
const ACTOR_MAILBOX: &str = "mailbox";
/// Kind of a supervisor of equal children.
const POOL: &str = "pool";

pub(crate) async fn metrics(request: Request) -> Reply {
    Ok(whole(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text(&request.context)))
}

fn text(context: &HandlerContext) -> String {
    let (tree, snapshot) = (&context.tree, context.tree.snapshot());
    let mut out = Exposition::default();
    let version = context.state.program_info.version.as_str();
    let help = "1; the version of the program is a label.";
    out.add(Kind::Gauge, "orchestrator_build_info", help, &[("version", version)], 1);
    let started_ms = snapshot.captured_at_ms.saturating_sub(snapshot.uptime_ms);
    let help = "Start of the process, in seconds since 1970.";
    out.add(Kind::Gauge, "process_start_time_seconds", help, &[], started_ms as f64 / 1e3);
    process(&mut out, ProcessUsage::read());
    let help =
        "Memory budget of the process: `admin.memory_budget`, or what the program and all queues may take.";
    let budget = context.state.memory.budget(&snapshot.root);
    out.add(Kind::Gauge, "orchestrator_memory_budget_bytes", help, &[], budget);
    let help = "Log lines that were dropped, since the reader of standard error is too slow or gone.";
    out.add(Kind::Counter, "orchestrator_log_lines_dropped_total", help, &[], StandardStream::dropped());
    arbiters(&mut out, tree);
    children(&mut out, tree, &snapshot.root, None);
    let reloaded = u8::from(context.state.program_info.reload.is_successful());
    let help = "1 unless the last reload of the configuration failed.";
    out.add(Kind::Gauge, "orchestrator_config_last_reload_successful", help, &[], reloaded);
    let help = "1 while a cause holds up work of the child, as in `orchestrator why`; no series otherwise.";
    for (path, cause) in why::blocked(context, &snapshot) {
        out.add(Kind::Gauge, "orchestrator_blocked", help, &[("path", &path), ("cause", &cause)], 1);
    }
    out.render()
}

fn process(out: &mut Exposition, process: ProcessUsage) {
    if let Some(seconds) = process.cpu_seconds {
        let help = "Processor time of the process, user and system.";
        out.add(Kind::Counter, "process_cpu_seconds_total", help, &[], seconds);
    }
    let metrics = [
        ("process_resident_memory_bytes", "Resident memory of the process.", process.resident_bytes),
        ("process_threads", "Threads of the process.", process.threads),
        ("process_open_fds", "Open file descriptors of the process.", process.open_fds),
        ("process_max_fds", "Maximum number of open file descriptors.", process.max_fds),
    ];
    for (name, help, value) in metrics {
        if let Some(value) = value {
            out.add(Kind::Gauge, name, help, &[], value);
        }
    }
}

fn arbiters(out: &mut Exposition, tree: &Tree) {
    let children: Vec<_> = tree.paths().iter().filter_map(|path| tree.child(path)).collect();
    let silence: BTreeMap<_, _> = children
        .iter()
        .filter_map(|child| Some((child.arbiter_name()?, child.arbiter_silence().as_secs_f64())))
        .collect();
    let help = "Duration of an arbiter's current poll, or the delay of its heartbeat, whichever is longer. \
                Over one second, the arbiter is blocked.";
    for (name, seconds) in silence {
        out.add(Kind::Gauge, "orchestrator_arbiter_silence_seconds", help, &[("arbiter", name)], seconds);
    }
}

/// Adds `node` and the children below it. Members of a pool have few series each; their gauges and histograms
/// are those of the pool. So a pool of 80 does not make most of the response.
fn children(out: &mut Exposition, tree: &Tree, node: &NodeSnapshot, parent: Option<&NodeSnapshot>) {
    let is_member = parent.is_some_and(|parent| parent.kind == POOL);
    child(out, node, is_member);
    // Only subsystems and the endpoint are given up alone.
    if parent.is_some_and(|parent| !parent.path.contains('/')) {
        let help = "1 if the subsystem, or the endpoint, exceeded its restart intensity and waits to be tried again.";
        let given_up = u8::from(node.state == State::GivenUp);
        out.add(Kind::Gauge, "orchestrator_child_given_up", help, &[("path", &node.path)], given_up);
    }
    if !is_member {
        let mailboxes = if node.kind == POOL { pooled_mailboxes(node) } else { node.mailboxes.clone() };
        mailboxes.iter().for_each(|mailbox| mailbox_gauges(out, node, mailbox));
        pooled_gauges(node).iter().for_each(|gauge| metric(out, &node.path, gauge));
        let measured = if node.kind == POOL { node.children.as_slice() } else { std::slice::from_ref(node) };
        let measured: Vec<_> = measured.iter().filter_map(|node| tree.child(&node.path)).collect();
        histograms(out, &node.path, &measured);
    }
    node.children.iter().for_each(|child| children(out, tree, child, Some(node)));
}

fn child(out: &mut Exposition, node: &NodeSnapshot, is_member: bool) {
    let path = [("path", node.path.as_str())];
    let is_paused = node.state == State::Paused;
    let up = u8::from(is_paused || node.state == State::Running);
    let mut gauge = |name: &str, help: &str, value: u64| out.add(Kind::Gauge, name, help, &path, value);
    if up == 0 || !is_member {
        let help = "1 if the child is running or paused; for a member of a pool, no series then.";
        gauge("orchestrator_child_up", help, up.into());
    }
    if node.pausable {
        let help = "1 if an operator has paused the child; no series if it cannot be paused.";
        gauge("orchestrator_child_paused", help, is_paused.into());
    }
    if node.stuck || !is_member {
        let help = "1 if the child's work in progress or its arbiter hangs; for a member of a pool, no series otherwise.";
        gauge("orchestrator_child_stuck", help, node.stuck.into());
    }
    // Siblings have the same value, that of their supervisor, unless they give up alone.
    if let Some(least) = node.children.iter().map(|child| child.budget_left).min() {
        let help = "Restarts left in the current period before the supervisor gives up. At the root: before it gives up the \
                    child that has the fewest left.";
        gauge("orchestrator_supervisor_budget_left", help, least.into());
    }
    // An idle link is no outage.
    if let Some(link) = node.link.as_ref().filter(|link| link.state != LinkStatus::Idle) {
        let labels = [path[0], ("kind", link.kind.as_str())];
        let up = u8::from(link.state == LinkStatus::Up);
        out.add(
            Kind::Gauge,
            "orchestrator_link_up",
            "1 if the connection is up and its requests are answered; no series while no connection is needed.",
            &labels,
            up,
        );
    }
    let help = "Restarts after a failure of the child, a sibling or a supervisor above it (kind failed), and by command or for a new \
                mapping (kind planned; no series before the first).";
    let mut restarts = |kind, count| {
        out.add(Kind::Counter, "orchestrator_child_restarts_total", help, &[path[0], ("kind", kind)], count);
    };
    restarts("failed", node.restarts);
    if node.planned_restarts > 0 {
        restarts("planned", node.planned_restarts);
    }
    for input in &node.expected_inputs {
        let labels = [path[0], ("input", input.name.as_str())];
        let help =
            "Time by which input is late: since the end of its configured period; 0 while it is not late.";
        let late = input.late_ms as f64 / 1e3;
        out.add(Kind::Gauge, "orchestrator_input_late_seconds", help, &labels, late);
    }
    node.mailboxes.iter().for_each(|one| mailbox_counters(out, node, one, is_member));
    let own = node.metrics.iter().filter(|metric| !is_member || metric.kind == MetricKind::Counter);
    own.for_each(|one| metric(out, &node.path, one));
}

/// Mailboxes of a pool's members, added up by name; the highest number is that of one member.
fn pooled_mailboxes(pool: &NodeSnapshot) -> Vec<MailboxSnapshot> {
    let mut pooled = Vec::<MailboxSnapshot>::new();
    for mailbox in pool.children.iter().flat_map(|member| &member.mailboxes) {
        match pooled.iter_mut().find(|known| known.name == mailbox.name) {
            Some(known) => {
                known.depth += mailbox.depth;
                known.capacity += mailbox.capacity;
                known.high_water = known.high_water.max(mailbox.high_water);
            }
            None => pooled.push(mailbox.clone()),
        }
    }
    pooled
}

/// Gauges of a pool's members, added up by name and label; none for other children.
fn pooled_gauges(pool: &NodeSnapshot) -> Vec<MetricSnapshot> {
    let mut pooled = Vec::<MetricSnapshot>::new();
    let members = pool.children.iter().filter(|_| pool.kind == POOL);
    for gauge in members.flat_map(|member| &member.metrics).filter(|one| one.kind == MetricKind::Gauge) {
        match pooled.iter_mut().find(|known| known.name == gauge.name && known.label == gauge.label) {
            Some(known) => known.value += gauge.value,
            None => pooled.push(gauge.clone()),
        }
    }
    pooled
}

fn mailbox_gauges(out: &mut Exposition, node: &NodeSnapshot, mailbox: &MailboxSnapshot) {
    let labels = [("path", node.path.as_str()), ("mailbox", mailbox.name.as_str())];
    let mut add = |name: &str, help: &str, value: usize| {
        out.add(Kind::Gauge, &format!("orchestrator_mailbox_{name}"), help, &labels, value);
    };
    add("depth", "Messages waiting in the mailbox, or in all mailboxes of the pool.", mailbox.depth);
    let help = "Maximum number of messages in the mailbox, or in all mailboxes of the pool.";
    add("capacity", help, mailbox.capacity);
    let help =
        "Highest number of messages that waited at once in the mailbox, or in one mailbox of the pool.";
    add("high_water", help, mailbox.high_water);
}

fn mailbox_counters(out: &mut Exposition, node: &NodeSnapshot, mailbox: &MailboxSnapshot, is_member: bool) {
    let labels = [("path", node.path.as_str()), ("mailbox", mailbox.name.as_str())];
    let mut add = |name: &str, help: &str, value: u64| {
        out.add(Kind::Counter, &format!("orchestrator_mailbox_{name}_total"), help, &labels, value);
    };
    add("refused", "Messages refused because the mailbox was full.", mailbox.refused);
    add("handled", "Messages passed to a handler.", mailbox.handled);
    if mailbox.purged > 0 || !is_member {
        let help = "Messages that a purge dropped before they were handled; for a member of a pool, no series before the first.";
        add("purged", help, mailbox.purged);
    }
}

/// Adds the histograms of one child, or the sums over the members of a pool.
fn histograms(out: &mut Exposition, path: &str, measured: &[Arc<ChildState>]) {
    let mut timings = BTreeMap::<_, Vec<Timing>>::new();
    let mut messages = BTreeMap::<_, Vec<Arc<MessageStats>>>::new();
    for child in measured {
        for timing in child.vitals().timings() {
            timings.entry((timing.name, timing.label)).or_default().push(timing);
        }
        for (mailbox, gauge) in child.mailboxes() {
            for stats in gauge.message_stats() {
                messages.entry((mailbox, stats.name)).or_default().push(stats);
            }
        }
    }
    let mut add = |name: &str, help: &str, labels: &Labels<'_>, buckets: &Buckets, sum: Option<Histogram>| {
        sum.into_iter().for_each(|sum| out.histogram(name, help, labels, &sum, buckets));
    };
    for ((name, label), parts) in timings {
        let (name, help) = (timing_name(path, name), parts[0].help);
        let sum = Histogram::sum_of(parts.iter().map(|timing| &*timing.histogram));
        add(&name, help, &[("path", path), label], &TIMING_BUCKETS, sum);
    }
    for ((mailbox, message), parts) in messages {
        let labels = [("path", path), ("mailbox", mailbox), ("message", message)];
        let help = "Time from sending a message to the start of its handler.";
        let wait = Histogram::sum_of(parts.iter().map(|stats| &stats.wait));
        add("orchestrator_message_wait_seconds", help, &labels, &MESSAGE_BUCKETS, wait);
        if mailbox == ACTOR_MAILBOX {
            let help = "Run time of the message handler of an actor.";
            let handling = Histogram::sum_of(parts.iter().map(|stats| &stats.handling));
            add("orchestrator_message_handling_seconds", help, &labels, &MESSAGE_BUCKETS, handling);
        }
    }
}

fn metric(out: &mut Exposition, path: &str, metric: &MetricSnapshot) {
    let name = metric_name(path, metric);
    let kind = match metric.kind {
        MetricKind::Counter => Kind::Counter,
        MetricKind::Gauge => Kind::Gauge,
    };
    let mut labels = vec![("path", path)];
    labels.extend(metric.label.as_ref().map(|label| (label.name.as_str(), label.value.as_str())));
    match base_unit(&metric.unit) {
        ("seconds", per_second @ 2..) => {
            out.add(kind, &name, metric.help, &labels, metric.value as f64 / per_second as f64);
        }
        _ => out.add(kind, &name, metric.help, &labels, metric.value),
    }
}

/// Base unit of Prometheus for `unit`, and how many of `unit` it is.
fn base_unit(unit: &str) -> (&str, u32) {
    match unit {
        "milliseconds" => ("seconds", 1_000),
        "microseconds" => ("seconds", 1_000_000),
        unit => (unit, 1),
    }
}

/// `orchestrator_<subsystem>_<name>_seconds`.
fn timing_name(path: &str, name: &str) -> String {
    format!("orchestrator_{}_{}_seconds", subsystem(path), name_part(name))
}

/// First segment of the path below the root.
fn subsystem(path: &str) -> String {
    name_part(path.split('/').nth(1).unwrap_or("root"))
}

/// `orchestrator_<subsystem>_<name>_<unit>[_total]`. A unit at the end of the name is not repeated.
fn metric_name(path: &str, metric: &MetricSnapshot) -> String {
    let subsystem = subsystem(path);
    let mut name = name_part(&metric.name);
    if metric.kind == MetricKind::Counter {
        name = name.strip_suffix("_total").map(str::to_owned).unwrap_or(name);
    }
    let unit = name_part(base_unit(&metric.unit).0);
    let has_unit = unit.is_empty() || name == unit || name.ends_with(&format!("_{unit}"));
    let unit = if has_unit { String::new() } else { format!("_{unit}") };
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
                    bound: None,
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
