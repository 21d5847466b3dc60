//! The endpoint as a child of the tree. It opens the sockets and serves until it is stopped. After the first
//! start, an error of a socket never ends the process.

use std::{future::pending, sync::Arc, time::Duration};

use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_supervise::{ChildSpec, Factory, Fault, Placement, Shutdown, StartCx};
use rustix::process::setpriority_process;

use crate::{
    AdminConfig, AdminError, ProgramInfo,
    admin_metrics::AdminMetrics,
    connection_limit::connections_max,
    endpoint_state::EndpointState,
    export::EXPORTS_MAX,
    handler_context::HandlerContext,
    listeners::{Listeners, Opened},
    response_limit::ResponseLimit,
    sampler::sample,
    server::Servers,
};

/// Delays between attempts to open a socket whose address is in use: longer than those of other sockets,
/// since the program that has the address usually keeps it.
const RETRY: RetryPolicy = RetryPolicy::exception(Duration::from_secs(1), Duration::from_secs(30));

/// Niceness of the endpoint's threads. On a busy core they get about a tenth of the time.
const NICENESS: i32 = 10;

/// Effect of a socket that cannot be opened at the first start. At later starts it is always a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Binding {
    /// The endpoint fails to start, and so does the tree.
    #[default]
    Required,
    /// As `Required` for the unix socket, and as `Optional` for the TCP address: nobody configured it.
    DefaultPort,
    /// The endpoint logs a warning, reports its link as down and retries. Used for drop-ins.
    Optional,
}

impl Binding {
    /// True if the endpoint must not start with this error.
    fn is_fatal(self, error: &AdminError) -> bool {
        match self {
            Self::Required => true,
            Self::DefaultPort => !matches!(error, AdminError::Tcp { .. }),
            Self::Optional => false,
        }
    }
}

/// Specification of the child `admin`. Its link shows the addresses. Without an address, the child is idle.
///
/// Call [`AdminConfig::check`] before: errors of the configuration appear here only when the child starts.
pub fn child_spec(config: &AdminConfig, binding: Binding, program_info: ProgramInfo) -> ChildSpec {
    let state =
        EndpointState::new(config, program_info).map(Arc::new).map_err(|error| Fault::new(error.to_string()));
    let factory = Factory::task(move |cx: StartCx| {
        let state = state.clone();
        let binding = if cx.incarnation > 1 { Binding::Optional } else { binding };
        async move {
            let state = state?;
            if state.addresses.is_empty() {
                cx.stop.cancelled().await;
                return Ok(());
            }
            if cx.incarnation == 1 {
                state.load_history();
                state.audit.prepare(&cx.vitals);
            }
            let ended = tokio::select! {
                ended = serve(&state, binding, &cx) => ended,
                never = sample(&cx.tree, &state.history) => match never {},
            };
            state.audit.record_counts();
            if ended.is_ok() {
                state.store_history();
            }
            ended
        }
    });
    ChildSpec::worker("admin", factory)
        .placement(Placement::Dedicated)
        .shutdown(Shutdown::After(Duration::from_secs(3)))
}

async fn serve(state: &Arc<EndpointState>, binding: Binding, cx: &StartCx) -> Result<(), Fault> {
    let addresses = &state.addresses;
    lower_priority();
    let mut listeners = Listeners::default();
    let mut opened = listeners.open_missing(addresses);
    if let Some(error) = opened.errors.iter().find(|error| binding.is_fatal(error)) {
        return Err(Fault::new(error.to_string()));
    }
    let link = LinkState::new(cx, "http", addresses.names(), RETRY);
    let metrics = AdminMetrics::register(&cx.vitals);
    loop {
        let contexts = contexts(state, &metrics, cx);
        let failed = |error| Fault::new(AdminError::Server(error).to_string());
        let mut servers = Servers::start(&listeners, contexts).map_err(failed)?;
        let more = loop {
            tokio::select! {
                biased;
                // The stop also ends an endpoint without sockets.
                () = cx.stop.cancelled() => break false,
                error = servers.ended_early() => return Err(failed(error)),
                () = next_attempt(&link, &opened) => {}
            }
            opened = listeners.open_missing(addresses);
            if opened.any {
                break true;
            }
        };
        if !more {
            // The sockets are closed, so that no new connection is accepted while the last requests are
            // served.
            listeners = Listeners::default();
        }
        servers.stop().await;
        if !more {
            return Ok(());
        }
    }
}

/// Lowers the priority of this thread and of the server threads that it starts, so that floods of requests do
/// not slow down the subsystems.
fn lower_priority() {
    // The system never refuses a lower priority.
    let _ = setpriority_process(None, NICENESS);
}

/// Contexts for the handlers of the TCP socket, the unix socket and the probes.
fn contexts(state: &Arc<EndpointState>, metrics: &AdminMetrics, cx: &StartCx) -> [HandlerContext; 3] {
    let closing = cx.stop.child_token();
    // Event streams are long-lived, so they may take only half of the connections.
    let slots = state.event_clients_max.min(connections_max() / 2);
    let exports = EXPORTS_MAX.min(connections_max() / 4);
    [(), (), ()].map(|()| HandlerContext {
        tree: cx.tree.clone(),
        own_path: cx.vitals.path().to_owned(),
        stop: cx.stop.clone(),
        closing: closing.clone(),
        state: state.clone(),
        metrics: metrics.clone(),
        event_limit: ResponseLimit::new(slots, &metrics.event_clients),
        export_limit: ResponseLimit::new(exports, &metrics.exports),
    })
}

/// Reports the state of the sockets on the link and waits for the next attempt to open those that are
/// missing.
async fn next_attempt(link: &LinkState, opened: &Opened) {
    if opened.errors.is_empty() {
        link.succeeded();
        return pending().await;
    }
    let texts: Vec<_> = opened.errors.iter().map(ToString::to_string).collect();
    // The link logs the warning once for each new reason.
    link.retry(texts.join("; ")).await;
}
