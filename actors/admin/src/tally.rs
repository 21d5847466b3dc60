//! What the endpoint counts of itself, declared as figures of its child.

use orchestrator_supervise::{Figure, FigureKind, Vitals};

/// Shared by all connections.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// A connection that ended without a request that is HTTP.
    pub(crate) malformed: Figure,
    /// A name in `Host`, or a page in `Origin`, that is not served.
    pub(crate) foreign: Figure,
    /// No token, or none that is known.
    pub(crate) unauthorized: Figure,
    /// A token whose role may not do this.
    pub(crate) forbidden: Figure,
    /// No seat was left for another reader of events.
    pub(crate) crowded: Figure,
    /// A command that was refused because it could not be noted.
    pub(crate) unaudited: Figure,
    /// Readers of events.
    pub(crate) event_clients: Figure,
    /// Lines of the audit log.
    pub(crate) audit_lines: Figure,
}

impl Tally {
    pub(crate) fn declare(vitals: &Vitals) -> Self {
        let refused = |name| vitals.declare(name, "requests", FigureKind::Counter);
        Self {
            malformed: vitals.declare("refused_malformed", "connections", FigureKind::Counter),
            foreign: refused("refused_foreign"),
            unauthorized: refused("refused_unauthorized"),
            forbidden: refused("refused_forbidden"),
            crowded: refused("refused_crowded"),
            unaudited: refused("refused_unaudited"),
            event_clients: vitals.declare("event_clients", "clients", FigureKind::Gauge),
            audit_lines: vitals.declare("audit_lines", "lines", FigureKind::Counter),
        }
    }
}
