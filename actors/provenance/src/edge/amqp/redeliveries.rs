//! Messages that the broker delivers again and again, and queues whose broker may delete them for it
//! (CONTRACT PP03).

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use lapin::{message::Delivery, types::AMQPValue};
use orchestrator_supervise::Vitals;

/// Returned deliveries of a message after which operators are told: half of the default limit of RabbitMQ
/// 4.0.
const OFTEN: i64 = 10;

/// Messages that were delivered often, and whether queues have the broker's default delivery limit.
#[derive(Debug)]
pub(super) struct Redeliveries {
    /// Command that lifts the limit of existing queues.
    policy: String,
    often: Arc<AtomicUsize>,
    default_limit: AtomicBool,
}

/// A held message that was delivered often; dropped with it.
#[derive(Debug)]
pub(super) struct OftenDelivered(Arc<AtomicUsize>);

impl Redeliveries {
    pub(super) fn new(vhost: &str) -> Self {
        let vhost = vhost.replace('\'', "'\\''");
        let policy = format!(
            "rabbitmqctl set_policy -p '{vhost}' orchestrator '^(content|directory|revision|origin|location|relation)_add' \
             '{{\"delivery-limit\":-1}}' --apply-to quorum_queues"
        );
        Self { policy, often: Arc::default(), default_limit: AtomicBool::new(false) }
    }

    /// Reports, once, that quorum queues exist that were declared without a delivery limit.
    pub(super) fn has_default_limit(&self, vitals: &Vitals) {
        if !self.default_limit.swap(true, SeqCst) {
            tracing::warn!(path = vitals.path(), help = self.policy, "{DEFAULT_LIMIT}");
            vitals.set_routine("delivery_limit", DEFAULT_LIMIT, &[], &self.policy);
        }
    }

    /// Reports a delivery that follows many others of the same message.
    pub(super) fn delivered(&self, delivery: &Delivery, vitals: &Vitals) -> Option<OftenDelivered> {
        let headers = delivery.properties.headers().as_ref()?;
        let count = integer(headers.inner().get("x-delivery-count")?)?;
        if count <= OFTEN {
            return None;
        }
        let queue = &delivery.routing_key;
        let text = format!(
            "a message of the queue {queue} was delivered {count} times and not acknowledged: with a delivery limit, the broker \
             deletes it"
        );
        vitals.set_blocker("redelivered", text, &self.policy);
        self.often.fetch_add(1, SeqCst);
        Some(OftenDelivered(self.often.clone()))
    }

    /// Ends the report once no message that was delivered often is held.
    pub(super) fn settled(&self, vitals: &Vitals) {
        if vitals.blocker().is_some_and(|blocker| blocker.kind == "redelivered")
            && self.often.load(SeqCst) == 0
        {
            vitals.clear_blocker();
        }
    }
}

const DEFAULT_LIMIT: &str = "quorum queues of an earlier version have no delivery limit of their own: since RabbitMQ 4.0 the broker \
    deletes a message at its 21st delivery, unless a policy lifts the limit";

impl Drop for OftenDelivered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Value of an integer of any width.
fn integer(value: &AMQPValue) -> Option<i64> {
    match *value {
        AMQPValue::ShortShortInt(value) => Some(value.into()),
        AMQPValue::ShortShortUInt(value) => Some(value.into()),
        AMQPValue::ShortInt(value) => Some(value.into()),
        AMQPValue::ShortUInt(value) => Some(value.into()),
        AMQPValue::LongInt(value) => Some(value.into()),
        AMQPValue::LongUInt(value) => Some(value.into()),
        AMQPValue::LongLongInt(value) => Some(value),
        _ => None,
    }
}
