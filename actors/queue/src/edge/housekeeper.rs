//! The housekeeper: a thread that carries out upkeep of the database, answers operators and counts for the
//! metrics. It has connections of its own, so that no commit waits for it.

use std::{sync::Arc, time::Duration};

use orchestrator_queue_rules::storage::{Sample, StorageError};
use orchestrator_queue_store::{Maintenance, Store, unix_time};
use orchestrator_supervise::{ChildSpec, Factory, Fault, InboxSlot, Received, StartCx};

use crate::{
    config::QueueConfig,
    edge::{expected_runs::ExpectedRuns, gauges::Gauges},
    messages::MaintenanceRequest,
    workers_seen::WorkersSeen,
};

/// Time limit of an operator's question; the console itself waits 2 s.
const QUESTION_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The child: configuration and inbox of all incarnations.
pub(crate) struct Housekeeper {
    pub(crate) config: QueueConfig,
    pub(crate) requests: InboxSlot<MaintenanceRequest>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workers: WorkersSeen,
}

impl Housekeeper {
    pub(crate) fn child(self) -> ChildSpec {
        let requests = self.requests.clone();
        let factory = Factory::thread(move |cx| self.run(&cx)).with_inbox("chores", &requests);
        ChildSpec::worker("housekeeper", factory)
    }

    /// Runs one incarnation of the thread.
    fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let mut requests = self.requests.open();
        let mut gauges = Gauges::new(&cx.vitals);
        let expected = ExpectedRuns::new(&self.config.expect, &self.config.input_dir, &cx.vitals);
        let mut maintenance = self.store.maintenance(QUESTION_TIMEOUT, &cx.stop);
        loop {
            match requests.recv_blocking(&cx.stop, Some(gauges.next_sample())) {
                Received::Item(request) => {
                    let _work = cx.vitals.begin_work(request.name());
                    if matches!(request, MaintenanceRequest::Question { shows_jobs: true, .. }) {
                        gauges.hasten();
                    }
                    request.execute(&mut *maintenance);
                }
                Received::TimedOut => {
                    let _work = cx.vitals.begin_work("sample");
                    gauges.sample(|| {
                        sample(&mut *maintenance, &expected).inspect(|sample| self.workers.counted(sample))
                    });
                }
                Received::Stopped => return Ok(()),
            }
        }
    }
}

/// Counts for the metrics, and looks for the runs that are expected.
fn sample(maintenance: &mut dyn Maintenance, expected: &ExpectedRuns) -> Result<Sample, StorageError> {
    let mut connection = maintenance.questions(Arc::new(|| true))?;
    let store = connection.get();
    let sample = store.sample(unix_time())?;
    if !expected.is_empty() {
        expected.update(&store.last_runs()?, unix_time());
    }
    Ok(sample)
}

impl MaintenanceRequest {
    fn execute(self, maintenance: &mut dyn Maintenance) {
        match self {
            Self::Upkeep(upkeep) => maintenance.upkeep(upkeep),
            Self::Question { answer, .. } => answer(maintenance),
            Self::RecordPause(pause, reply) => drop(reply.send(maintenance.record_pause(pause))),
            Self::Adopt(fetcher, reply) => drop(reply.send(maintenance.adopt(&fetcher))),
            Self::SharedPause(reply) => drop(reply.send(maintenance.shared_pause())),
        }
    }

    /// Name of the work in the tree.
    fn name(&self) -> &'static str {
        match self {
            Self::Upkeep(_) => "checkpoint",
            Self::RecordPause(..) | Self::SharedPause(_) => "pause",
            Self::Question { .. } | Self::Adopt(..) => "question",
        }
    }
}
