//! Confirmation of claims with an unknown outcome: the rows are read back by the claim's token.

use std::{collections::HashSet, time::Duration};

use orchestrator_catalog_rules::rows::{Row, rows};
use tokio::time::Instant;

use super::{claims::Claims, outage::Outage, poller::Poller, unconfirmed_claim::UnconfirmedClaim};
use crate::service::{CatalogResponse, Get, RequestError, Service};

impl Poller {
    pub(super) fn next_confirmation(&self) -> Option<Instant> {
        self.unconfirmed.iter().map(|claim| claim.next).min()
    }

    /// A claim that is to be confirmed now, and the path of the query for the rows that have its token.
    pub(super) fn claim_to_confirm(&mut self, now: Instant) -> Option<(UnconfirmedClaim, String)> {
        let index = self.unconfirmed.iter().position(|claim| claim.next <= now)?;
        let claim = self.unconfirmed.remove(index)?;
        let path = self.cx.rule.token_query(&claim.token)?;
        Some((claim, path))
    }

    /// Adds the rows that have the token. A delayed write may still arrive, so the read is repeated
    /// until the lease in that write has ended.
    pub(super) fn handle_confirmation(
        &mut self,
        mut claim: UnconfirmedClaim,
        answer: Result<Vec<Row>, RequestError>,
        claims: &mut Claims,
        write_outage: &mut Outage,
    ) {
        let now = Instant::now();
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                self.outage.failed(error.to_string(), now);
                claim.next = self.outage.until(now).unwrap_or(now);
                self.unconfirmed.push_back(claim);
                return;
            }
        };
        self.outage.reset();
        write_outage.reset();
        let confirmed: HashSet<_> = rows.iter().map(|row| claims.key_of(row)).collect();
        let plan = std::mem::take(&mut claim.plan);
        let (ours, rest): (Vec<_>, Vec<_>) =
            plan.into_iter().partition(|(row, _)| confirmed.contains(&claims.key_of(row)));
        if !ours.is_empty() {
            let (rule, rows) = (&self.cx.rule.name, ours.len());
            tracing::info!(rule, rows, "a claim with a lost answer had been written");
            self.cx.count_claims(claim.target, rows);
        }
        let until = self.cx.rule.lease().map(|span| claim.started + span);
        for (row, claimed) in ours {
            claims.add(row, claimed, claim.token.clone(), until);
        }
        claim.attempts += 1;
        claim.next = now + confirmation_delay(claim.attempts).min(self.cx.retry_max);
        claim.plan = rest;
        let given_up = match until {
            Some(until) => now >= until,
            // Without a lease no other agent takes the rows over: keep asking long enough for a
            // delayed write.
            None => claim.attempts > 12,
        };
        if !claim.plan.is_empty() && !given_up {
            self.unconfirmed.push_back(claim);
        }
        self.state.poll_unconditionally();
    }
}

/// Delay before an unconfirmed claim is read again: 250 ms, doubled up to 16 s.
fn confirmation_delay(attempts: u32) -> Duration {
    Duration::from_millis(250) * 2u32.pow(attempts.min(6))
}

/// Reads rows without a cached response.
pub(crate) async fn read<S: Service>(service: &S, path: String) -> Result<Vec<Row>, RequestError> {
    match service.get(Get { path, if_none_match: None }).await? {
        CatalogResponse::Rows { body, .. } => rows(&body).map_err(RequestError::Unavailable),
        CatalogResponse::NotModified { .. } => {
            Err(RequestError::Unavailable("the server answered 304 to an unconditional request".to_owned()))
        }
    }
}
