//! Metrics of the endpoint.

use orchestrator_supervise::metrics;

metrics! {
    /// Counters shared by all connections.
    pub(crate) struct Tally {
        /// Connections that ended without a request that is HTTP.
        pub(crate) malformed: counter("connections") as "refused_malformed",
        /// Requests refused for a `Host` or `Origin` that is not the endpoint's.
        pub(crate) foreign: counter("requests") as "refused_foreign",
        /// Requests refused for a missing or unknown token.
        pub(crate) unauthorized: counter("requests") as "refused_unauthorized",
        /// Requests refused because the token's role is too small.
        pub(crate) forbidden: counter("requests") as "refused_forbidden",
        /// Requests refused because too many clients read events already.
        pub(crate) crowded: counter("requests") as "refused_crowded",
        /// Commands refused because the audit log could not be written.
        pub(crate) unaudited: counter("requests") as "refused_unaudited",
        /// Clients that read events.
        pub(crate) event_clients: gauge("clients"),
        /// Lines written to the audit log.
        pub(crate) audit_lines: counter("lines"),
    }
}
