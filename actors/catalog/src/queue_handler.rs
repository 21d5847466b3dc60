//! `queue`: rows become jobs of the queue in the same process (CONTRACT CF16).

use std::sync::Arc;

use jiff::Timestamp;
use orchestrator_exchange::{JobEnd, JobFinished, JobId, JobOffered, JobQueue, payload_text};
use orchestrator_supervise::sanitize;
use serde_json::json;

use crate::{
    handler::{Failure, Handler, Outcome, Row, Task},
    outcome_kind::{ExitCodes, OutcomeKind},
    template::Variables,
    text_template::TextTemplate,
};

/// Handler that offers rows to the queue and waits for a worker's report.
#[derive(Debug, Clone)]
pub struct QueueHandler {
    pub(crate) queue: JobQueue,
    /// Catalog and rule, with dots.
    pub(crate) owner: Arc<str>,
    pub(crate) attr_path: TextTemplate,
    pub(crate) payload: TextTemplate,
    pub(crate) exit_codes: ExitCodes,
}

/// Withdraws a job when dropped: at its end, and when its row is lost or released.
struct Withdrawal<'a> {
    queue: &'a JobQueue,
    job: &'a JobId,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.queue.withdraw(self.job.clone());
    }
}

impl Handler for QueueHandler {
    async fn handle(&self, task: Task) -> Outcome {
        let offer = match self.offer(&task) {
            Ok(offer) => offer,
            Err(error) => return Outcome::failed(error),
        };
        let _withdrawal = Withdrawal { queue: &self.queue, job: &offer.job };
        match self.queue.end_of(&offer).await {
            JobEnd::Finished(end) => self.outcome(end),
            JobEnd::Taken => Outcome::Later(format!(
                "another row has the job {}: let attr_path differ for each row",
                sanitize(offer.job.attr_path())
            )),
            JobEnd::Refused(reason) => Outcome::failed(format!("the queue refused the job: {reason}")),
        }
    }
}

impl QueueHandler {
    /// Returns the job of a row. Each claim of a row has its own job, since the lease of the former one may have ended.
    fn offer(&self, task: &Task) -> Result<JobOffered, String> {
        let token = task.token.as_deref().unwrap_or_default();
        let variables = Variables { token, now: Timestamp::now(), row: &task.row, result: None, error: "" };
        let name = self.attr_path.text(&variables)?;
        let claim = uuid::Uuid::new_v4().to_string();
        Ok(JobOffered {
            job: JobId::new(self.owner.clone(), &name, claim),
            payload: payload_text(&self.payload.text(&variables)?),
        })
    }

    fn outcome(&self, JobFinished { exit_code, seconds }: JobFinished) -> Outcome {
        let fields = [("exit_code", json!(exit_code)), ("duration_secs", json!(seconds))];
        let result = Row::from(fields.map(|(name, value)| (name.to_owned(), value.into())));
        let error = format!("the worker reported exit code {exit_code} after {seconds} s");
        match i32::try_from(exit_code).map_or(OutcomeKind::Failed, |code| self.exit_codes.kind(code)) {
            OutcomeKind::Done => Outcome::Done(result),
            OutcomeKind::Failed => Outcome::Failed(Failure { error, result }),
            OutcomeKind::Later => Outcome::Later(error),
            OutcomeKind::Dead => Outcome::Dead(Failure { error, result }),
        }
    }
}
