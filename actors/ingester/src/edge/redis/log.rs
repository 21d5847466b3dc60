//! What goes wrong in this ingester, told where dranspose's parts tell it: the stream `dranspose_logs`, which its controller shows
//! (CONTRACT ID10). Nobody waits for it, and what Redis does not take in time is left out.

use std::{collections::VecDeque, time::Duration};

use orchestrator_supervise::{ChildSpec, Durable, Factory, Fault, MetricKind, StartCx};
use redis::pipe;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    connection::{Connection, RequestError},
    place::Place,
};
use crate::trouble::{Line, Watch};

const KEY: &str = "dranspose_logs";
/// Lines that are kept there, of all parts, about.
const KEPT: usize = 1_000;
/// Lines that wait for Redis.
const WAITING: usize = 256;
/// Longest reply, bytes: ids.
const REPLY_MAX: usize = 1 << 20;
/// How often it is looked for something new.
const LOOK: Duration = Duration::from_secs(1);

/// The state of the child that outlives its restarts.
#[derive(Debug, Default)]
struct Lines {
    watch: Watch,
    waiting: VecDeque<Line>,
}

/// The child that tells of its siblings and all below them.
pub(crate) fn child(place: Place) -> ChildSpec {
    let lines = Durable::new("waiting_lines", Lines::default());
    let shared = lines.clone();
    let factory = Factory::task(move |cx: StartCx| {
        let (place, lines) = (place.clone(), shared.clone());
        async move {
            cx.stop.run_until_cancelled(tell(&place, &lines, &cx)).await;
            Ok::<(), Fault>(())
        }
    });
    ChildSpec::worker("log", factory).durable(&lines)
}

async fn tell(place: &Place, lines: &Durable<Lines>, cx: &StartCx) {
    let branch = cx.vitals.path().rsplit_once('/').map_or("", |(branch, _)| branch);
    let lost = cx.vitals.register(
        "lost_log_lines",
        "lines",
        MetricKind::Counter,
        "Lines about trouble that Redis did not take in time.",
    );
    let mut connection = None;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let Some(node) = cx.tree.node(branch) else { continue };
        let waiting = lines.update(|lines| {
            let news = cx.tree.events(lines.watch.seen());
            lines.waiting.extend(lines.watch.lines(&news, &node));
            let over = lines.waiting.len().saturating_sub(WAITING);
            lost.add(lines.waiting.drain(..over).count() as u64);
            lines.waiting.clone()
        });
        // That Redis is away is told by the link of its own child.
        if !waiting.is_empty() && send(place, &mut connection, &waiting).await.is_ok() {
            lines.update(|lines| lines.waiting.clear());
        }
    }
}

async fn send(
    place: &Place,
    slot: &mut Option<Connection>,
    lines: &VecDeque<Line>,
) -> Result<(), RequestError> {
    let mut connection = match slot.take() {
        Some(connection) => connection,
        None => place.connect(Duration::ZERO, REPLY_MAX).await?,
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
        let command = commands.cmd("XADD").arg(KEY).arg("MAXLEN").arg("~").arg(KEPT).arg("*");
        command.arg(&fields).ignore();
    }
    connection.ask_all(&commands).await?;
    *slot = Some(connection);
    Ok(())
}
