//! Write requests that share a transaction. Pure but for the reply channels.

use tokio::sync::oneshot;

use crate::{messages::WriteRequest, row::Rows, store::StoreError};

type Reply = oneshot::Sender<Result<(), StoreError>>;

/// Requests of several workers: their rows are merged, one group for each method.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// In the order of [`Method`](crate::method::Method): entities before the relations between them, which need them.
    merged: Vec<Rows>,
    /// The requests as they came, while there is more than one: if the store refuses the whole, each is written alone.
    requests: Vec<(Rows, Reply)>,
    rows: usize,
}

impl Group {
    /// Adds a request.
    pub(crate) fn add(&mut self, request: WriteRequest) {
        self.rows += request.rows.len();
        self.requests.push((request.rows, request.reply));
    }

    /// How many rows wait in it.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// What to write.
    pub(crate) fn merged(&mut self) -> &[Rows] {
        if self.merged.is_empty() {
            for (rows, _) in &self.requests {
                match self.merged.iter_mut().find(|group| group.method() == rows.method()) {
                    // The methods are the same, so there is nothing to be given back.
                    Some(group) => drop(group.absorb(rows.clone())),
                    None => self.merged.push(rows.clone()),
                }
            }
            self.merged.sort_by_key(Rows::method);
        }
        &self.merged
    }

    /// It is written, or refused although it is a single request: everybody is told.
    pub(crate) fn answer(self, outcome: &Result<(), StoreError>) {
        for (_, reply) in self.requests {
            // A worker that was restarted asks again.
            let _ = reply.send(outcome.clone());
        }
    }

    /// Its requests, each as a group of its own; none when it is only one.
    pub(crate) fn split(self) -> Result<Vec<Self>, Self> {
        if self.requests.len() < 2 {
            return Err(self);
        }
        let alone = |(rows, reply): (Rows, Reply)| Self {
            rows: rows.len(),
            requests: vec![(rows, reply)],
            ..Self::default()
        };
        Ok(self.requests.into_iter().map(alone).collect())
    }
}

#[cfg(test)]
mod tests;
