//! [`Queue`] over Faktory: pairs become jobs, spread over the connections.

use futures_util::future::join_all;
use orchestrator_edge::{PeerError, Sent};
use orchestrator_supervise::StopToken;

use super::{error::not_sent, pool::Faktory};
use orchestrator_producer_rules::{
    batch::Batch,
    job::{Jid, Job, JobOptions, JobWriter},
    pair::Pair,
    queue_state::QueueState,
};

use crate::queue::{JidSeed, Queue, Unacknowledged};

/// Attempts at a batch that the server cannot have received (CONTRACT SE04).
const ATTEMPTS: usize = 3;

/// A queue of a Faktory server. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct FaktoryQueue {
    faktory: Faktory,
    writer: JobWriter,
    /// Jobs that certainly fit into one batch.
    batch_max: usize,
    stop: StopToken,
}

impl FaktoryQueue {
    /// Returns a queue that pushes jobs with `options` through `faktory`.
    ///
    /// # Errors
    /// A server would refuse such jobs.
    pub(crate) fn new(faktory: Faktory, options: &JobOptions) -> Result<Self, String> {
        let writer = JobWriter::new(options)?;
        let batch_max = (Batch::BYTES_MAX / writer.job_bytes_max()).clamp(1, Batch::JOBS_MAX);
        Ok(Self { faktory, writer, batch_max, stop: StopToken::new() })
    }

    /// The clone withdraws waiting batches once `stop` is triggered.
    #[must_use]
    pub(crate) fn until(&self, stop: &StopToken) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    /// Pushes one batch. It is pushed again under the same jids while the server cannot have received it.
    /// Otherwise the caller would repeat the whole chunk, also what other connections have pushed.
    async fn push_batch(
        &self,
        connection: usize,
        pairs: &[Pair],
        seed: Option<JidSeed>,
    ) -> Result<Option<Unacknowledged>, PeerError> {
        let mut outcome = self.attempt(connection, pairs, seed).await;
        for _ in 1..ATTEMPTS {
            if !matches!(&outcome, Err(error) if error.sent == Sent::No) {
                break;
            }
            outcome = self.attempt(connection, pairs, seed).await;
        }
        outcome
    }

    async fn attempt(
        &self,
        connection: usize,
        pairs: &[Pair],
        seed: Option<JidSeed>,
    ) -> Result<Option<Unacknowledged>, PeerError> {
        let mut batch = Batch::with_room_for(pairs.len());
        for pair in pairs {
            let jid = match seed {
                Some(JidSeed { epoch, attempt }) => Jid::derived(pair, epoch, attempt),
                None => Jid::random(),
            };
            let job = Job { jid, pair: *pair, keyed: seed.is_some() };
            if !batch.add(&self.writer, &job) {
                return Err(not_sent("the batch is full: push it and start another one"));
            }
        }
        let stopping = || not_sent("the process stops");
        let mut pending = tokio::select! {
            biased;
            pending = self.faktory.submit(connection, batch) => pending,
            () = self.stop.cancelled() => return Err(stopping()),
        };
        tokio::select! {
            biased;
            outcome = &mut pending => return outcome,
            () = self.stop.cancelled() => {}
        }
        if pending.withdraw() { Err(stopping()) } else { pending.await }
    }
}

impl Queue for FaktoryQueue {
    async fn read(&mut self) -> Result<QueueState, PeerError> {
        let info = self.stop.run_until_cancelled(self.faktory.info()).await;
        info.unwrap_or_else(|| Err(PeerError::lost("the process stops")))
    }

    /// Pushes a chunk in one batch for each connection, or more if its jobs are large. Without a seed all go
    /// over one connection.
    async fn push(&mut self, pairs: &[Pair], seed: Option<JidSeed>) -> Result<(), Unacknowledged> {
        let connections = seed.map_or(1, |_| self.faktory.connections());
        let size = pairs.len().div_ceil(connections).clamp(1, self.batch_max);
        // The first poll of each, in order, submits it.
        let pushes = pairs
            .chunks(size)
            .enumerate()
            .map(|(number, pairs)| self.push_batch(number % connections, pairs, seed));
        let (mut positions, mut reason) = (Vec::new(), None);
        for (number, outcome) in join_all(pushes).await.into_iter().enumerate() {
            let first = number * size;
            match outcome {
                Ok(None) => {}
                Ok(Some(refused)) => {
                    positions.extend(refused.positions.iter().map(|position| first + position));
                    reason.get_or_insert(refused.reason);
                }
                Err(error) => {
                    positions.extend(first..pairs.len().min(first + size));
                    reason.get_or_insert(error.text);
                }
            }
        }
        match reason {
            Some(reason) => Err(Unacknowledged { positions, reason }),
            None => Ok(()),
        }
    }
}
