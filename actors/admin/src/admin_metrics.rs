//! Metrics of the endpoint.

use orchestrator_observe::metrics;

metrics! {
    /// Metrics that all connections share.
    pub(crate) struct AdminMetrics {
        /// Connections that brought no valid HTTP request, but something else.
        pub(crate) malformed: counter("connections") as "refused_malformed",
        /// Connections closed for new ones at the maximum number: after 0.1 s their request was incomplete, a
        /// probe, or still waiting.
        pub(crate) evicted: counter("connections"),
        /// Requests refused because of the `Host`, `Origin` or `Sec-Fetch-Site` of another site.
        pub(crate) origin: counter("requests") as "refused_origin",
        /// Requests refused because the token is missing or unknown.
        pub(crate) unauthorized: counter("requests") as "refused_unauthorized",
        /// Requests refused because the token's role does not allow the command.
        pub(crate) forbidden: counter("requests") as "refused_forbidden",
        /// Requests for events refused because the maximum number of clients is connected.
        pub(crate) event_limit: counter("requests") as "refused_event_limit",
        /// Requests for an export refused because the maximum number is being read.
        pub(crate) export_limit: counter("requests") as "refused_export_limit",
        /// Commands refused because the audit log cannot be written.
        pub(crate) unaudited: counter("requests") as "refused_unaudited",
        /// Clients connected to the event stream.
        pub(crate) event_clients: gauge("clients"),
        /// Exports that are being read.
        pub(crate) exports: gauge("clients") as "export_clients",
        /// Lines written to the audit log.
        pub(crate) audit_lines: counter("lines"),
    }
}
