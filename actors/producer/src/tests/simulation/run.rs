//! One run of a producer over the simulation.

use std::time::Duration;

use orchestrator_supervise::Outbox;

use super::{POLL, SimulatedProcess};
use orchestrator_producer_rules::{
    advance::{Action, Event, Machine},
    watermark::WaterMarks,
};

use crate::{
    completion::Delivery,
    environment::Stopped,
    executor::{Executor, Settings},
    store::Store,
};

pub(crate) fn settings(strict: bool, page_size: u32, chunk: usize, holder: &str) -> Settings {
    Settings {
        strict,
        queues: ["arborescent".to_owned()].into(),
        page_size,
        chunk,
        marks: WaterMarks { high: 0, low: 0 },
        poll: POLL,
        holder: holder.to_owned(),
        lease: Duration::from_secs(30),
    }
}

/// End of a process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stopped,
    Killed,
    /// The machine returned this final action.
    Returned(Action),
}

/// Runs a producer until it ends.
pub(crate) async fn run(machine: Machine, settings: Settings, process: &SimulatedProcess) -> End {
    run_with_store(machine, settings, process.clone(), process).await
}

/// Runs a producer over another database until it ends.
pub(crate) async fn run_with_store(
    machine: Machine,
    settings: Settings,
    store: impl Store,
    process: &SimulatedProcess,
) -> End {
    let settings = Settings { poll: process.poll, ..settings };
    let executor = Executor::new(settings, store, process.clone(), process.clone());
    run_with_executor(machine, executor, process).await
}

/// Runs a producer that requests deliveries of completed TCNs, until it ends.
pub(crate) async fn run_delivering(
    machine: Machine,
    settings: Settings,
    process: &SimulatedProcess,
    requests: Outbox<Delivery>,
) -> End {
    let settings = Settings { poll: process.poll, ..settings };
    let executor = Executor::new(settings, process.clone(), process.clone(), process.clone());
    run_with_executor(machine, executor.delivering(requests), process).await
}

async fn run_with_executor(
    mut machine: Machine,
    mut executor: Executor<impl Store, SimulatedProcess, SimulatedProcess>,
    process: &SimulatedProcess,
) -> End {
    let run = async {
        let mut event = Event::Started;
        loop {
            match machine.on(event) {
                end @ (Action::Finish | Action::Halt(_)) => {
                    match executor.deliver_completions().await {
                        Ok(true) => {}
                        Ok(false) => {
                            event = Event::LeaseLost;
                            continue;
                        }
                        Err(Stopped) => return End::Stopped,
                    }
                    executor.release_lease().await;
                    return End::Returned(end);
                }
                action => match executor.execute(action).await {
                    Ok(next) => event = next,
                    Err(Stopped) => return End::Stopped,
                },
            }
        }
    };
    tokio::select! {
        biased;
        () = process.killed.notified() => End::Killed,
        end = run => end,
    }
}
