//! What goes wrong in this ingester, told where dranspose's parts tell it: the stream `dranspose_logs`, which its controller shows
//! (CONTRACT ID10). Nobody waits for it, and what Redis does not take in time is left out.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use orchestrator_supervise::{Factory, Fault, FigureKind, StartCx};
use parking_lot::Mutex;
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

/// What outlives the child, which is started again with each mapping.
#[derive(Debug, Default)]
struct Desk {
    watch: Watch,
    waiting: VecDeque<Line>,
}

/// The child that tells of its siblings and all below them.
pub(crate) fn factory(place: Place) -> Factory {
    let desk = Arc::<Mutex<Desk>>::default();
    Factory::task(move |cx: StartCx| {
        let (place, desk) = (place.clone(), desk.clone());
        async move {
            cx.stop.run_until_cancelled(tell(&place, &desk, &cx)).await;
            Ok::<(), Fault>(())
        }
    })
}

async fn tell(place: &Place, desk: &Mutex<Desk>, cx: &StartCx) {
    let branch = cx.vitals.path().rsplit_once('/').map_or("", |(branch, _)| branch);
    let lost = cx.vitals.register(
        "lost_log_lines",
        "lines",
        FigureKind::Counter,
        "Lines about trouble that Redis did not take in time.",
    );
    let mut connection = None;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let Some(node) = cx.tree.node(branch) else { continue };
        let lines = {
            let mut desk = desk.lock();
            let news = cx.tree.events(desk.watch.seen());
            let news = desk.watch.lines(&news, &node);
            desk.waiting.extend(news);
            let over = desk.waiting.len().saturating_sub(WAITING);
            lost.add(desk.waiting.drain(..over).count() as u64);
            desk.waiting.clone()
        };
        // That Redis is away is told by the link of its own child.
        if !lines.is_empty() && send(place, &mut connection, &lines).await.is_ok() {
            desk.lock().waiting.clear();
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
