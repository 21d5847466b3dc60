//! The endpoint as a child of the tree: opens its sockets, serves until it is told to stop, and never takes the
//! process down once it has been up.

use std::{future::pending, io, pin::pin, sync::Arc, time::Duration};

use orchestrator_supervise::{
    Backoff, ChildSpec, Factory, Fault, LinkReporter, Placement, Shutdown, StartCx,
};
use rustix::process::setpriority_process;

use crate::{
    About, AdminConfig, AdminError,
    access::Access,
    connection_limit::connections_max,
    listeners::{Listeners, Opened},
    sampler::sample,
    seats::Seats,
    server::Servers,
    setup::Setup,
    tally::Tally,
};

/// Delays between attempts to open a socket that somebody else has.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Niceness of the endpoint's threads: about a tenth of a busy core is left for them.
const NICENESS: i32 = 10;

/// What a socket that cannot be opened means at the first start. Later it is always a warning: an endpoint that lost
/// its port must not end the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The endpoint fails to start, and so does the tree.
    Required,
    /// A warning, the link down, and another try after a while: for drop-in use, where nobody counted on the endpoint.
    Optional,
}

/// The child `admin`; its link shows where it listens. Turned off it idles. Call [`AdminConfig::check`] before: what is
/// wrong with the configuration only shows here when the child starts.
pub fn child_spec(config: &AdminConfig, binding: Binding, about: About) -> ChildSpec {
    let setup = Setup::new(config, about).map(Arc::new).map_err(|error| Fault::new(error.to_string()));
    let factory = Factory::task(move |cx: StartCx| {
        let setup = setup.clone();
        let binding = if cx.incarnation > 1 { Binding::Optional } else { binding };
        async move {
            let setup = setup?;
            if setup.places.is_empty() {
                cx.stop.cancelled().await;
                return Ok(());
            }
            tokio::select! {
                ended = serve(&setup, binding, &cx) => ended,
                never = sample(&cx.tree, &setup.history) => match never {},
            }
        }
    });
    ChildSpec::worker("admin", factory)
        .placement(Placement::Dedicated)
        .shutdown(Shutdown::After(Duration::from_secs(3)))
}

async fn serve(setup: &Arc<Setup>, binding: Binding, cx: &StartCx) -> Result<(), Fault> {
    let places = &setup.places;
    give_way();
    let mut listeners = Listeners::default();
    let mut opened = listeners.open_missing(places);
    if let (Binding::Required, Some(error)) = (binding, opened.trouble.first()) {
        return Err(Fault::new(error.to_string()));
    }
    let link = cx.vitals.link("http", places.names());
    let tally = Tally::register(&cx.vitals);
    let mut attempt = 0;
    loop {
        let access = access(setup, &tally, cx);
        let servers = Servers::build(&listeners, access)
            .map_err(|error| Fault::new(AdminError::Server(error).to_string()))?;
        let handle = servers.handle();
        let mut running = pin!(servers.run());
        let more = loop {
            let retry = report(&link, &opened, attempt);
            tokio::select! {
                ended = &mut running => return Err(ended_early(ended)),
                () = cx.stop.cancelled() => break false,
                () = sleep(retry) => {}
            }
            attempt += 1;
            opened = listeners.open_missing(places);
            if opened.any {
                break true;
            }
        };
        if !more {
            // Nobody new comes in while the last ones are served.
            listeners = Listeners::default();
        }
        let (_, _) = tokio::join!(handle.stop(), running);
        if !more {
            return Ok(());
        }
    }
}

/// Lowers the priority of this thread and of those that it starts, which is all that serves: however many strangers knock,
/// the work comes first. The arbiter is the endpoint's own.
fn give_way() {
    // No caller is refused a lower priority; if one were, the endpoint would be as important as the work.
    let _ = setpriority_process(None, NICENESS);
}

/// What the handlers of the two sockets, TCP and unix, are given.
fn access(setup: &Arc<Setup>, tally: &Tally, cx: &StartCx) -> [Access; 2] {
    let closing = cx.stop.child_token();
    // Who stays must leave room for who only asks.
    let seats = setup.event_clients_max.min(connections_max() / 2);
    Seats::pair(seats, tally.event_clients.clone()).map(|seats| Access {
        tree: cx.tree.clone(),
        own_path: cx.vitals.path().to_owned(),
        stop: cx.stop.clone(),
        closing: closing.clone(),
        setup: setup.clone(),
        tally: tally.clone(),
        seats,
    })
}

/// Shows the state of the sockets; the delay until the next try, if one is missing.
fn report(link: &LinkReporter, opened: &Opened, attempt: u32) -> Option<Duration> {
    if opened.trouble.is_empty() {
        link.up();
        return None;
    }
    let delay = RETRY.delay(attempt, fastrand::f64());
    let texts: Vec<_> = opened.trouble.iter().map(ToString::to_string).collect();
    // The link logs the warning, and only when the reason is new.
    link.down(texts.join("; "), delay);
    Some(delay)
}

async fn sleep(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => pending().await,
    }
}

fn ended_early(ended: io::Result<()>) -> Fault {
    let error = ended.err().unwrap_or_else(|| io::Error::other("it ended by itself"));
    Fault::new(AdminError::Server(error).to_string())
}
