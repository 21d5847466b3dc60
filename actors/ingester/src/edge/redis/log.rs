//! Publishes this ingester's faults in `dranspose_logs`, which dranspose's controller shows
//! (CONTRACT ID10). Nothing waits for it; lines that Redis does not take in time are dropped.

use std::{collections::VecDeque, time::Duration};

use orchestrator_edge::{PeerError, PeerErrorKind};
use orchestrator_observe::{LinkReporter, MetricKind};
use orchestrator_supervise::{ChildRef, ChildSpec, Durable, Factory, Fault, StartCx};
use redis::pipe;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    connection::Connection,
    target::{RedisTarget, explained},
};
use crate::log_lines::{LogCollector, LogLine};

const KEY: &str = "dranspose_logs";
/// Approximate length to which the stream is trimmed, in lines of all processes.
const STREAM_LENGTH: usize = 1_000;
/// Lines that may wait for Redis.
const PENDING_MAX: usize = 256;
/// Longest reply, bytes; the replies are ids.
const REPLY_MAX: usize = 1 << 20;
/// Interval between two checks for new lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Durable state of the child.
#[derive(Debug, Default)]
struct LogState {
    collector: LogCollector,
    waiting: VecDeque<LogLine>,
}

/// Child that publishes faults of the children of `branch`, its supervisor.
pub(crate) fn child(target: RedisTarget, branch: &ChildRef) -> ChildSpec {
    let lines = Durable::new("waiting_lines", LogState::default());
    let (shared, branch) = (lines.clone(), branch.clone());
    let factory = Factory::task(move |cx: StartCx| {
        let (target, lines, branch) = (target.clone(), shared.clone(), branch.clone());
        async move {
            cx.stop.run_until_cancelled(publish(&target, &lines, &branch, &cx)).await;
            Ok::<(), Fault>(())
        }
    });
    ChildSpec::worker("log", factory).durable(&lines)
}

async fn publish(target: &RedisTarget, lines: &Durable<LogState>, branch: &ChildRef, cx: &StartCx) {
    let lost = cx.vitals.register(
        "lost_log_lines",
        "lines",
        MetricKind::Counter,
        "Log lines that Redis did not take in time; they are in the program's own log only.",
    );
    let mut connection = None;
    // Link to a Redis that refuses the lines. Otherwise there is none.
    let mut refusing = None;
    let mut tick = interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(node) = cx.tree.node(branch.path()) else { continue };
        let waiting = lines.update(|lines| {
            let news = cx.tree.events(lines.collector.last_seq());
            lines.waiting.extend(lines.collector.lines(&news, &node));
            let over = lines.waiting.len().saturating_sub(PENDING_MAX);
            lost.add(lines.waiting.drain(..over).count() as u64);
            lines.waiting.clone()
        });
        if waiting.is_empty() {
            continue;
        }
        match send(target, &mut connection, &waiting).await {
            Ok(()) => {
                lines.update(|lines| lines.waiting.clear());
                refusing.take().inspect(|link: &LinkReporter| link.accepted(KEY));
            }
            Err(error) if error.kind == PeerErrorKind::Refused => {
                let link = refusing.get_or_insert_with(|| cx.vitals.link("redis", target.endpoint()));
                link.idle();
                let error = explained(error, target.endpoint()).map_text(|text| format!("{KEY}: {text}"));
                link.refused(KEY, &error, INTERVAL);
            }
            // The link of the child `redis` reports that Redis is away.
            Err(_) => {}
        }
    }
}

async fn send(
    target: &RedisTarget,
    slot: &mut Option<Connection>,
    lines: &VecDeque<LogLine>,
) -> Result<(), PeerError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => target.connect(Duration::ZERO, REPLY_MAX).await?,
    };
    let mut commands = pipe();
    for line in lines {
        let created = Duration::from_millis(line.at_ms).as_secs_f64().to_string();
        let fields = [
            ("msg", line.text.as_str()),
            ("lineno", "0"),
            ("name", &line.path),
            ("created", &created),
            ("levelname", line.level.name()),
        ];
        let command = commands.cmd("XADD").arg(KEY).arg("MAXLEN").arg("~").arg(STREAM_LENGTH).arg("*");
        command.arg(&fields).ignore();
    }
    connection.ask_all(&commands).await?;
    *slot = Some(connection);
    Ok(())
}
