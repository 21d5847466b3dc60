//! A delivery that is not acknowledged yet, and what its refused items become.

use std::collections::BTreeMap;

use bytes::Bytes;
use lapin::{BasicProperties, types::ShortString};
use orchestrator_observe::GaugeGuard;
use orchestrator_subsystem::DETAIL;
use orchestrator_text::sanitize;

use super::{consumer_context::ConsumerContext, dead_letter::RefusedItems, redeliveries::OftenDelivered};
use crate::{
    messages::Outcome,
    wire::{self, Malformed, Positions},
};

/// Delivery that is not acknowledged yet.
#[derive(Debug)]
pub(super) struct UnackedMessage {
    pub(super) tag: u64,
    pub(super) body: Bytes,
    pub(super) positions: Positions,
    pub(super) malformed: Vec<Malformed>,
    /// Error of a body that cannot be read as a whole.
    pub(super) unreadable: Option<String>,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) _counted: (GaugeGuard, Option<GaugeGuard>, Option<OftenDelivered>),
}

impl UnackedMessage {
    /// Counts and reports malformed items and unreadable bodies. The worker reports rows that the
    /// store refuses.
    pub(super) fn report(&self, stored: u64, context: &ConsumerContext) {
        let (queue, tag) = (self.routing_key.as_str(), self.tag);
        tracing::debug!(target: DETAIL, queue, tag, stored, "a message is settled");
        let (reason, what) = match (&self.unreadable, self.malformed.last()) {
            (Some(reason), _) => {
                context.metrics.unreadable.add(1);
                (reason.clone(), "message")
            }
            (None, Some(last)) => {
                context.metrics.malformed.add(self.malformed.len() as u64);
                (last.reason.to_string(), "row")
            }
            (None, None) => return,
        };
        // The note escapes the text.
        context.vitals.note(format!("{what} of {} refused: {reason}", self.routing_key));
    }

    /// One dead letter for each reason of a refusal.
    pub(super) fn dead_letters(&self, settled: &Outcome) -> Vec<RefusedItems> {
        let letter = |body: Bytes, reason: &str| RefusedItems {
            body,
            reason: reason.to_owned(),
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            correlation_id: self.properties.correlation_id().clone(),
            sender: sender(&self.properties),
        };
        if let Some(reason) = &self.unreadable {
            return vec![letter(self.body.clone(), reason)];
        }
        let mut at_fault: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for item in &self.malformed {
            at_fault.entry(item.reason.to_string()).or_default().push(item.position);
        }
        for refusal in &settled.refused {
            at_fault.entry(refusal.reason.clone()).or_default().push(self.positions.of(refusal.index));
        }
        let letters = at_fault.into_iter().map(|(reason, positions)| {
            // The body was decoded before, so this succeeds; otherwise the dead letter has the
            // whole body.
            let body = wire::excerpt(&self.body, &positions).unwrap_or_else(|_| self.body.clone());
            letter(body, &reason)
        });
        letters.collect()
    }
}

/// Sender as far as the properties of the message name one.
fn sender(properties: &BasicProperties) -> String {
    let named = [
        ("app_id", properties.app_id()),
        ("user_id", properties.user_id()),
        ("message_id", properties.message_id()),
        ("reply_to", properties.reply_to()),
    ];
    let named: Vec<String> =
        named.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if named.is_empty() { "unknown".to_owned() } else { sanitize(named.join(", ")) }
}
