//! [`Queue`] over Faktory: pairs become jobs, spread over the connections.

use std::ops::Range;

use orchestrator_supervise::StopToken;

use super::{
    error::{PushError, Pushed},
    pool::{Faktory, PendingPush},
};
use crate::{
    batch::Batch,
    job::{Jid, Job, JobOptions, JobWriter},
    pair::Pair,
    queue::{JidSeed, Queue, QueueError},
    queue_state::QueueState,
};

/// Attempts at a batch that the server cannot have received (CONTRACT SE04).
const ATTEMPTS: usize = 3;

/// A queue of a Faktory server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct FaktoryQueue {
    faktory: Faktory,
    writer: JobWriter,
    stop: StopToken,
}

impl FaktoryQueue {
    /// Returns a queue that pushes jobs with `options` through `faktory`.
    ///
    /// # Errors
    /// A server would refuse such jobs.
    pub fn new(faktory: Faktory, options: &JobOptions) -> Result<Self, String> {
        Ok(Self { faktory, writer: JobWriter::new(options)?, stop: StopToken::new() })
    }

    /// Returns a clone that withdraws waiting batches once `stop` is triggered.
    #[must_use]
    pub fn until(&self, stop: &StopToken) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// Splits a chunk of `pairs` into one batch for each connection. Without a seed all go over one connection, in order.
    fn split(&self, pairs: usize, seed: Option<JidSeed>) -> Vec<Range<usize>> {
        let connections = seed.map_or(1, |_| self.faktory.connections());
        let size = pairs.div_ceil(connections).clamp(1, Batch::JOBS_MAX);
        (0..pairs).step_by(size).map(|first| first..pairs.min(first + size)).collect()
    }

    async fn submit(
        &self,
        connection: usize,
        pairs: &[Pair],
        seed: Option<JidSeed>,
    ) -> Result<PendingPush, QueueError> {
        let mut batch = Batch::with_room_for(pairs.len());
        for pair in pairs {
            let jid = match seed {
                Some(JidSeed { epoch, attempt }) => Jid::derived(pair, epoch, attempt),
                None => Jid::random(),
            };
            let job = Job { jid, pair: *pair, keyed: seed.is_some() };
            batch.add(&self.writer, &job).map_err(|full| QueueError::Unavailable(full.to_string()))?;
        }
        Ok(self.faktory.submit(if seed.is_some() { connection } else { 0 }, batch).await)
    }

    async fn outcome(&self, mut pending: PendingPush) -> Result<Pushed, PushError> {
        tokio::select! {
            biased;
            outcome = &mut pending => return outcome,
            () = self.stop.cancelled() => {}
        }
        if pending.withdraw() {
            return Err(PushError::NotSent("the process stops".to_owned()));
        }
        pending.await
    }
}

impl Queue for FaktoryQueue {
    async fn read(&mut self) -> Result<QueueState, QueueError> {
        self.faktory.info().await.map_err(|error| QueueError::Unavailable(error.to_string()))
    }

    async fn push(&mut self, pairs: &[Pair], seed: Option<JidSeed>) -> Result<(), QueueError> {
        let ranges = self.split(pairs.len(), seed);
        let mut pending = Vec::with_capacity(ranges.len());
        for (connection, range) in ranges.iter().enumerate() {
            pending.push(self.submit(connection, &pairs[range.clone()], seed).await?);
        }
        let (mut positions, mut reason) = (Vec::new(), None);
        for ((connection, range), first_attempt) in ranges.into_iter().enumerate().zip(pending) {
            let mut outcome = self.outcome(first_attempt).await;
            for _ in 1..ATTEMPTS {
                // Retried here: the caller would repeat the whole chunk, also what other connections have pushed.
                let Err(PushError::NotSent(_)) = outcome else { break };
                outcome = self.outcome(self.submit(connection, &pairs[range.clone()], seed).await?).await;
            }
            match outcome {
                Ok(Pushed { refused }) => {
                    for refusal in refused {
                        positions.push(range.start + refusal.index);
                        reason.get_or_insert(format!("faktory: {}", refusal.reason));
                    }
                }
                Err(error) => {
                    positions.extend(range);
                    reason.get_or_insert(match error {
                        PushError::Refused(reason) => format!("faktory: {reason}"),
                        other => other.to_string(),
                    });
                }
            }
        }
        match reason {
            Some(reason) => Err(QueueError::Unacknowledged { positions, reason }),
            None => Ok(()),
        }
    }
}
