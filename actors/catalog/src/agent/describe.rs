//! Answers to the console's questions about one row.

use jiff::Timestamp;
use tokio::time::Instant;

use super::Agent;
use crate::row_question::{RUNNING_MAX, RowQuestion, RuleView};

impl<S, H> Agent<S, H> {
    /// Answers from memory.
    pub(super) fn answer(&self, question: &RowQuestion) {
        // An operator may have stopped waiting.
        drop(question.reply.send(self.describe(&question.key, Instant::now())));
    }

    fn describe(&self, key: &str, now: Instant) -> RuleView {
        let (rule, claims, poller) = (&self.cx.rule, &self.claims, &self.poller);
        let wall_ms = millis(self.cx.clock.now());
        let ms = |at: Instant| wall_ms.saturating_add(at.saturating_duration_since(now).as_millis() as u64);
        let has_key = |row: &_| rule.id(row).text() == key;
        let unconfirmed =
            poller.unconfirmed.iter().find(|claim| claim.plan.iter().any(|(row, _)| has_key(row)));
        let rows = || claims.rows.running().map(|held| (rule.id(&held.row).text(), millis(held.claimed_at)));
        let reason = match &poller.parked {
            Some((reason, until)) if *until > now => Some(reason.clone()),
            _ => poller.plan_outage.failure().map(|failure| failure.reason.clone()),
        };
        RuleView {
            held: claims.rows.held(|held| has_key(&held.row), ms),
            unconfirmed: unconfirmed.map(|claim| ms(claim.next)),
            deferred: claims.deferred.of(has_key_text(key)).map(|(failures, until)| (failures, ms(until))),
            next_poll: if poller.state.wanted { Some(wall_ms) } else { poller.polling.due().map(ms) },
            notices_up: poller.polling.are_notices_up(),
            running: rows().take(RUNNING_MAX).collect(),
            working: claims.rows.working(),
            reason,
        }
    }
}

/// The keys of deferred rows are JSON arrays of one value: that of a text or of a number.
fn has_key_text(key: &str) -> impl Fn(&str) -> bool {
    let forms = [format!("[{key}]"), serde_json::to_string(&[key]).unwrap_or_default()];
    move |known| forms.iter().any(|form| form == known)
}

fn millis(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
