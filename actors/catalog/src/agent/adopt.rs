//! Claims whose answer is lost: whether they were written is read back by their token.

use std::time::Duration;

use futures_util::{FutureExt, future::LocalBoxFuture};
use tokio::time::Instant;

use super::{Agent, order::Target, orphan::Orphan, outage::at_most, report::Report};
use crate::{
    handling::{Handler, Row},
    service::{Get, Reply, Service, Trouble},
    state_change::rows,
    status::Count,
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    /// When the next one is to be asked for.
    pub(super) fn next_orphan(&self) -> Option<Instant> {
        self.orphans.iter().map(|orphan| orphan.next).min()
    }

    /// Asks which rows bear the token.
    pub(super) fn adopt(&mut self, now: Instant) -> Option<LocalBoxFuture<'static, Report>> {
        let place = self.orphans.iter().position(|orphan| orphan.next <= now)?;
        let orphan = self.orphans.remove(place)?;
        let path = self.rule.token_query(&orphan.token)?;
        let service = self.context.service.clone();
        let ask = async move {
            let answer = read(&service, path).await;
            Report::Adopted(orphan, answer)
        };
        Some(ask.boxed_local())
    }

    /// The rows that bear it are ours. A write that is still on its way may come later: it is asked for again until the lease that
    /// it writes has ended.
    pub(super) fn adopted(&mut self, mut orphan: Orphan, answer: Result<Vec<Row>, Trouble>) {
        let now = Instant::now();
        let rows = match answer {
            Ok(rows) => rows,
            Err(trouble) => {
                self.reading.failed(trouble.to_string(), now);
                orphan.next = self.reading.until(now).unwrap_or(now);
                self.orphans.push_back(orphan);
                return;
            }
        };
        self.reading.over();
        self.writing.over();
        let bear: std::collections::HashSet<_> = rows.iter().map(|row| self.key_of(row)).collect();
        let plan = std::mem::take(&mut orphan.plan);
        let (ours, rest): (Vec<_>, Vec<_>) =
            plan.into_iter().partition(|(row, _)| bear.contains(&self.key_of(row)));
        if !ours.is_empty() {
            tracing::info!(
                rule = self.rule.name,
                rows = ours.len(),
                "a claim whose answer was lost had been written"
            );
            self.board.count(Count::Claimed, ours.len());
            if orphan.target == Target::Others {
                self.board.count(Count::TakenOver, ours.len());
            }
        }
        let until = self.rule.lease().map(|span| orphan.began + span);
        for (row, claimed) in ours {
            self.take_up(row, claimed, orphan.token.clone(), until);
        }
        orphan.asked += 1;
        orphan.next = now + at_most(patience(orphan.asked));
        orphan.plan = rest;
        let over = match until {
            Some(until) => now >= until,
            // Without a lease nobody else will ever take them: long enough for what is on its way.
            None => orphan.asked > 12,
        };
        if !orphan.plan.is_empty() && !over {
            self.orphans.push_back(orphan);
        }
        self.looks.anew();
    }
}

/// How long to wait before a claim that is not there yet is asked for again.
fn patience(asked: u32) -> Duration {
    Duration::from_millis(250) * 2u32.pow(asked.min(6))
}

/// Reads rows.
pub(super) async fn read<S: Service>(service: &S, path: String) -> Result<Vec<Row>, Trouble> {
    match service.get(Get { path, if_none_match: None }).await? {
        Reply::Rows { body, .. } => rows(&body).map_err(Trouble::Away),
        Reply::Unchanged { .. } => {
            Err(Trouble::Away("the server says that nothing has changed, which it was not asked".to_owned()))
        }
    }
}
