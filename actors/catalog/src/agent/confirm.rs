//! Confirmation of claims with an unknown outcome: the rows are read back by the claim's token.

use std::time::Duration;

use futures_util::{FutureExt, future::LocalBoxFuture};
use tokio::time::Instant;

use super::{Agent, poll_request::Target, request::RequestResult, unconfirmed_claim::UnconfirmedClaim};
use crate::{
    handler::{Handler, Row},
    service::{CatalogResponse, Get, RequestError, Service},
    state_change::rows,
    status::RuleCounter,
};

impl<S: Service + Clone + 'static, H: Handler + 'static> Agent<S, H> {
    pub(super) fn next_confirmation(&self) -> Option<Instant> {
        self.unconfirmed.iter().map(|claim| claim.next).min()
    }

    /// Reads the rows that have the claim's token.
    pub(super) fn confirm_claim(&mut self, now: Instant) -> Option<LocalBoxFuture<'static, RequestResult>> {
        let index = self.unconfirmed.iter().position(|claim| claim.next <= now)?;
        let claim = self.unconfirmed.remove(index)?;
        let path = self.rule.token_query(&claim.token)?;
        let service = self.context.service.clone();
        let request = async move {
            let answer = read(&service, path).await;
            RequestResult::Confirmed(claim, answer)
        };
        Some(request.boxed_local())
    }

    /// Adds the rows that have the token. A delayed write may still arrive, so the read is repeated
    /// until the lease in that write has ended.
    pub(super) fn handle_confirmation(
        &mut self,
        mut claim: UnconfirmedClaim,
        answer: Result<Vec<Row>, RequestError>,
    ) {
        let now = Instant::now();
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => {
                self.read_outage.failed(error.to_string(), now);
                claim.next = self.read_outage.until(now).unwrap_or(now);
                self.unconfirmed.push_back(claim);
                return;
            }
        };
        self.read_outage.reset();
        self.write_outage.reset();
        let confirmed: std::collections::HashSet<_> = rows.iter().map(|row| self.key_of(row)).collect();
        let plan = std::mem::take(&mut claim.plan);
        let (ours, rest): (Vec<_>, Vec<_>) =
            plan.into_iter().partition(|(row, _)| confirmed.contains(&self.key_of(row)));
        if !ours.is_empty() {
            tracing::info!(
                rule = self.rule.name,
                rows = ours.len(),
                "a claim with a lost answer had been written"
            );
            self.reporter.count(RuleCounter::Claimed, ours.len());
            if claim.target == Target::HeldRows {
                self.reporter.count(RuleCounter::TakenOver, ours.len());
            }
        }
        let until = self.rule.lease().map(|span| claim.started + span);
        for (row, claimed) in ours {
            self.add_claimed(row, claimed, claim.token.clone(), until);
        }
        claim.attempts += 1;
        claim.next = now + confirmation_delay(claim.attempts).min(self.retry_max);
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
        self.poll_state.poll_unconditionally();
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
