//! Faktory as the queue that the producer's rules know: pairs become jobs, spread over the connections.

use std::ops::Range;

use orchestrator_supervise::StopToken;

use super::{
    error::{FaktoryError, PushError, Pushed},
    flow::{Faktory, Pending},
};
use crate::{
    batch::Batch,
    job::{Jid, Job, JobWriter, Terms},
    pair::Pair,
    queue::{Queue, QueueError, Stamp},
    reading::Reading,
};

/// Tries of a batch of which the server heard nothing.
const TRIES: usize = 3;

/// A queue of a Faktory server. Clones share its connections.
#[derive(Debug, Clone)]
pub struct FaktoryQueue {
    faktory: Faktory,
    writer: JobWriter,
    stop: StopToken,
}

impl FaktoryQueue {
    /// Pushes jobs of `terms` through `faktory`.
    ///
    /// # Errors
    /// [`FaktoryError::Config`]: a server would refuse such jobs.
    pub fn new(faktory: Faktory, terms: &Terms) -> Result<Self, FaktoryError> {
        let writer = JobWriter::new(terms).map_err(FaktoryError::Config)?;
        Ok(Self { faktory, writer, stop: StopToken::new() })
    }

    /// The same for a child that may be asked to stop: then a batch that still waits for a connection is taken back.
    #[must_use]
    pub fn until(&self, stop: &StopToken) -> Self {
        Self { stop: stop.clone(), ..self.clone() }
    }

    async fn outcome(&self, mut pending: Pending) -> Result<Pushed, PushError> {
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

    /// Pairs in parts of one batch each. Without a stamp their order is the original's, which only one connection can keep.
    fn parts(&self, pairs: usize, stamp: Option<Stamp>) -> Vec<Range<usize>> {
        let lanes = stamp.map_or(1, |_| self.faktory.connections());
        let size = pairs.div_ceil(lanes).clamp(1, Batch::JOBS_MAX);
        (0..pairs).step_by(size).map(|first| first..pairs.min(first + size)).collect()
    }

    fn batch(&self, pairs: &[Pair], stamp: Option<Stamp>) -> Result<Batch, QueueError> {
        let mut batch = Batch::with_room_for(pairs.len());
        for pair in pairs {
            let jid = match stamp {
                Some(Stamp { epoch, attempt }) => Jid::derived(pair, epoch, attempt),
                None => Jid::random(),
            };
            let job = Job { jid, pair: *pair, keyed: stamp.is_some() };
            batch.add(&self.writer, &job).map_err(|full| QueueError::Away(full.to_string()))?;
        }
        Ok(batch)
    }

    async fn submit(
        &self,
        part: &Part<'_>,
        number: usize,
        stamp: Option<Stamp>,
    ) -> Result<Pending, QueueError> {
        // One connection keeps the order of what has one.
        let connection = if stamp.is_some() { number } else { 0 };
        Ok(self.faktory.submit(connection, self.batch(part.pairs, stamp)?).await)
    }
}

struct Part<'a> {
    pairs: &'a [Pair],
    first: usize,
}

impl Queue for FaktoryQueue {
    async fn read(&mut self) -> Result<Reading, QueueError> {
        self.faktory.info().await.map_err(|error| QueueError::Away(error.to_string()))
    }

    async fn push(&mut self, pairs: &[Pair], stamp: Option<Stamp>) -> Result<(), QueueError> {
        let ranges = self.parts(pairs.len(), stamp);
        let parts: Vec<Part<'_>> =
            ranges.into_iter().map(|range| Part { first: range.start, pairs: &pairs[range] }).collect();
        let mut pending = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            pending.push(self.submit(part, number, stamp).await?);
        }
        let mut total = Total::default();
        for (number, (part, first_try)) in parts.iter().zip(pending).enumerate() {
            let mut outcome = self.outcome(first_try).await;
            for _ in 1..TRIES {
                // It waits until there is a connection again. Were it told to the caller, the other parts would be pushed twice.
                let Err(PushError::NotSent(_)) = outcome else { break };
                outcome = self.outcome(self.submit(part, number, stamp).await?).await;
            }
            total.add(part, outcome);
        }
        total.outcome()
    }
}

/// What became of all parts.
#[derive(Default)]
struct Total {
    not_taken: Vec<usize>,
    reason: Option<String>,
}

impl Total {
    fn add(&mut self, part: &Part<'_>, outcome: Result<Pushed, PushError>) {
        match outcome {
            Ok(Pushed { refused }) => {
                for refusal in refused {
                    self.not_taken.push(part.first + refusal.index);
                    self.reason.get_or_insert(format!("faktory: {}", refusal.reason));
                }
            }
            // What other connections have sent is not told as open: it would be pushed twice.
            Err(error) => {
                self.not_taken.extend(part.first..part.first + part.pairs.len());
                self.reason.get_or_insert(match error {
                    PushError::Refused(reason) => format!("faktory: {reason}"),
                    other => other.to_string(),
                });
            }
        }
    }

    fn outcome(self) -> Result<(), QueueError> {
        match self.reason {
            Some(reason) => Err(QueueError::NotTaken { positions: self.not_taken, reason }),
            None => Ok(()),
        }
    }
}
