//! How many workers may be connected, and which one is asked to end for another one.

use orchestrator_edge::{ConnectionSlot, raise_descriptor_limit};

/// Descriptors left to the rest of the process.
const RESERVE: u64 = 64;

/// More connections than this are never held, whatever the limit on descriptors.
const CONNECTIONS_MAX: u64 = 16_384;

/// Standing of a connection without a request in work.
pub(super) const IDLE: u8 = 0;
/// Standing of a connection with a request in work.
pub(super) const BUSY: u8 = 1;

/// How many connections the limit on descriptors allows, raised as far as it goes, less a reserve for the rest of the process.
pub(super) fn connection_limit() -> usize {
    let descriptors = raise_descriptor_limit();
    let connections = descriptors.saturating_sub(RESERVE).clamp(1, CONNECTIONS_MAX);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// The connection that has been idle longest; None if all are at work.
pub(super) fn longest_idle<'a>(
    _: usize,
    slots: &mut dyn Iterator<Item = &'a ConnectionSlot>,
) -> Option<&'a ConnectionSlot> {
    slots.filter(|slot| slot.priority() == IDLE).min_by_key(|slot| slot.last_changed())
}
