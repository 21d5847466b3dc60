//! Limit of worker connections, and the choice of the one that is closed for a new one.

use orchestrator_edge::{ConnectionSlot, raise_descriptor_limit};

/// Descriptors reserved for the rest of the process.
const RESERVE: u64 = 64;

/// Maximum number of connections, whatever the limit on descriptors.
const CONNECTIONS_MAX: u64 = 16_384;

/// Priority of a connection without a request in progress.
pub(super) const IDLE: u8 = 0;
/// Priority of a connection with a request in progress.
pub(super) const BUSY: u8 = 1;

/// Connections that the limit on descriptors allows, less a reserve. Raises the limit to its hard limit. A
/// further connection replaces the one that has been idle longest (CONTRACT QR29).
pub(super) fn connection_limit() -> usize {
    let descriptors = raise_descriptor_limit();
    let connections = descriptors.saturating_sub(RESERVE).clamp(1, CONNECTIONS_MAX);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// None if all are busy.
pub(super) fn longest_idle<'a>(
    _: usize,
    slots: &mut dyn Iterator<Item = &'a ConnectionSlot>,
) -> Option<&'a ConnectionSlot> {
    slots.filter(|slot| slot.priority() == IDLE).min_by_key(|slot| slot.last_changed())
}
