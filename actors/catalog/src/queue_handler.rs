//! `queue`: rows become jobs of the queue in the same process (CONTRACT CF16).

use std::sync::Arc;

use jiff::Timestamp;
use orchestrator_catalog_rules::{
    outcome_kind::{ExitCodes, OutcomeKind},
    rows::Row,
    template::Variables,
    text_template::TextTemplate,
};
use orchestrator_exchange::{JobEnd, JobFinished, JobId, JobOffered, JobQueue, Stopped, payload_text};
use orchestrator_supervise::StopToken;
use orchestrator_text::sanitize;
use serde_json::json;

use crate::handler::{Failure, Handler, Outcome, Task};

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

/// Withdraws a job when dropped: at its end, and when its row is lost or released. None: a worker has it.
struct Withdrawal<'a> {
    queue: &'a JobQueue,
    job: Option<&'a JobId>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job {
            self.queue.withdraw(job.clone());
        }
    }
}

impl Handler for QueueHandler {
    async fn handle(&self, task: Task) -> Outcome {
        self.handle_until(task, &StopToken::new()).await
    }

    async fn handle_until(&self, task: Task, stop: &StopToken) -> Outcome {
        let offer = match self.offer(&task) {
            Ok(offer) => offer,
            Err(error) => return Outcome::failed(error),
        };
        let mut withdrawal = Withdrawal { queue: &self.queue, job: Some(&offer.job) };
        let end = match self.queue.end_until(&offer, stop).await {
            Ok(end) => end,
            Err(Stopped { has_worker }) => {
                withdrawal.job = None;
                return match has_worker {
                    true => Outcome::Continues,
                    false => Outcome::Later("the program stops, and no worker has the job".to_owned()),
                };
            }
        };
        match end {
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
    /// Each claim of a row has its own job. A worker may have the job of the claim whose lease ended, or may
    /// have ended it meanwhile.
    fn offer(&self, task: &Task) -> Result<JobOffered, String> {
        let token = task.token.as_deref().unwrap_or_default();
        let variables = Variables { token, now: Timestamp::now(), row: &task.row, result: None, error: "" };
        let name = self.attr_path.text(&variables)?;
        let claim = task.token.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        Ok(JobOffered {
            job: JobId::new(self.owner.clone(), &name, claim),
            former_claim: task.former_token.as_deref().map(Arc::from),
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
