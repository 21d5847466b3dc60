//! State of the servers of an address, from the driver's heartbeats. The driver's own error has only the fact
//! that no primary was found.

use std::{collections::BTreeMap, io, sync::Arc, time::Duration};

use mongodb::{
    bson::Document,
    error::{Error, ErrorKind},
    event::{EventHandler, sdam::SdamEvent},
    options::{ClientOptions, ServerAddress},
};
use orchestrator_observe::LinkReporter;
use orchestrator_text::sanitize;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    PeerError, PeerErrorKind, Sent,
    tls::{self, ServerName},
};

/// Interval of the driver's heartbeats while a server is away.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Servers of one address.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Replica set that the address names.
    set: Option<String>,
    /// Number of servers that the address names.
    count: usize,
    state: Mutex<State>,
    /// Notified when a server says something.
    heard: Notify,
}

#[derive(Debug, Default)]
struct State {
    said: BTreeMap<String, Said>,
    link: Option<LinkReporter>,
    /// True while the link is down because of a heartbeat.
    is_reported: bool,
}

/// Outcome of a server's last heartbeat.
#[derive(Debug, Clone)]
enum Said {
    /// It takes writes, and is of the set that the address names, if it names one.
    Suitable,
    /// It answers as another kind of server.
    Other {
        kind: &'static str,
        set: Option<String>,
    },
    Failed(PeerError),
}

impl Said {
    fn failed(&self) -> Option<&PeerError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Suitable | Self::Other { .. } => None,
        }
    }
}

impl Servers {
    /// Watches the servers of a client with `options`.
    pub(super) fn watch(options: &mut ClientOptions) -> Arc<Self> {
        let (set, count) = (options.repl_set_name.clone(), options.hosts.len());
        let servers = Arc::new(Self { set, count, ..Self::default() });
        let watching = servers.clone();
        options.sdam_event_handler = Some(EventHandler::callback(move |event| watching.handle(event)));
        servers
    }

    /// Reports the loss of all servers to `link`, also between two calls.
    pub(super) fn report_to(&self, link: Option<LinkReporter>) {
        self.state.lock().link = link;
    }

    fn handle(&self, event: SdamEvent) {
        let (server, said) = match event {
            SdamEvent::ServerHeartbeatSucceeded(event) => (event.server_address, self.kind_of(&event.reply)),
            SdamEvent::ServerHeartbeatFailed(event) => {
                let failed = failure(&event.failure, &event.server_address);
                (event.server_address, Said::Failed(failed))
            }
            _ => return,
        };
        let mut state = self.state.lock();
        state.said.insert(server.to_string(), said);
        let lost = state.lost().cloned();
        if let Some(link) = &state.link {
            match &lost {
                // A first connection is reported by its call.
                Some(error) if link.is_up() => {
                    link.down(error, HEARTBEAT);
                    state.is_reported = true;
                }
                None if state.is_reported && state.is_suitable() => {
                    link.up();
                    state.is_reported = false;
                }
                _ => {}
            }
        }
        drop(state);
        self.heard.notify_waiters();
    }

    /// Kind of the server that answered `hello` with `reply`.
    fn kind_of(&self, reply: &Document) -> Said {
        let flag = |name| reply.get_bool(name).unwrap_or(false);
        let set = reply.get_str("setName").ok().map(sanitize);
        let takes_writes = flag("isWritablePrimary") || flag("ismaster");
        let kind = match (reply.get_str("msg"), &set) {
            (Ok("isdbgrid"), _) => "a mongos",
            (_, None) => "a server of no replica set",
            _ if takes_writes => "the primary",
            _ if flag("secondary") => "a secondary",
            _ if flag("arbiterOnly") => "an arbiter",
            _ => "a member that does not take part",
        };
        match takes_writes && self.set.as_ref().is_none_or(|wanted| set.as_ref() == Some(wanted)) {
            true => Said::Suitable,
            false => Said::Other { kind, set },
        }
    }

    /// Waits until no server can be suitable, because each answers as one of another replica set.
    pub(super) async fn unsuitable(&self) -> PeerError {
        loop {
            let heard = self.heard.notified();
            if let Some(error) = self.wrong_set() {
                return error;
            }
            heard.await;
        }
    }

    fn wrong_set(&self) -> Option<PeerError> {
        let (wanted, state) = (self.set.as_ref()?, self.state.lock());
        let is_wrong = |said: &Said| matches!(said, Said::Other { set, .. } if set.as_ref() != Some(wanted));
        if state.said.len() < self.count || !state.said.values().all(is_wrong) {
            return None;
        }
        drop(state);
        self.failure()
    }

    /// Reason why no primary was found; None if the servers have not said it.
    pub(super) fn failure(&self) -> Option<PeerError> {
        let state = self.state.lock();
        let others = state.said.iter().filter_map(|(server, said)| match said {
            Said::Other { kind, set } => {
                let set = set.as_ref().map_or_else(String::new, |set| format!(" of the replica set {set}"));
                Some(format!("{server} is {kind}{set}"))
            }
            Said::Suitable | Said::Failed(_) => None,
        });
        let others: Vec<_> = others.collect();
        if others.is_empty() {
            return state.lost().cloned();
        }
        let (wanted, advice) = match &self.set {
            Some(set) => (
                format!("the address names the replica set {set}"),
                "correct replicaSet in the uri, or remove it; mongosh ADDRESS --eval 'db.hello().setName' shows a server's own",
            ),
            None => (
                "no primary answers".to_owned(),
                "mongosh --eval 'rs.status()' shows the primary; name all members and replicaSet in the uri",
            ),
        };
        let text = format!("{}, but {wanted}", others.join(", "));
        Some(PeerError::new(PeerErrorKind::Unsuitable, Sent::No, text).with_advice(advice.to_owned()))
    }
}

impl State {
    /// Failure of one server if none answers.
    fn lost(&self) -> Option<&PeerError> {
        let failed: Option<Vec<_>> = self.said.values().map(Said::failed).collect();
        failed?.into_iter().next()
    }

    fn is_suitable(&self) -> bool {
        self.said.values().any(|said| matches!(said, Said::Suitable))
    }
}

/// Translates the failure of a heartbeat. The driver verifies certificates as webpki does, and tells only the
/// text of an error.
fn failure(error: &Error, server: &ServerAddress) -> PeerError {
    let ErrorKind::Io(failed) = &*error.kind else {
        let text = format!("the connection to {server} broke: {}", sanitize(error.kind.to_string()));
        return PeerError::new(PeerErrorKind::Lost, Sent::No, text);
    };
    if let ServerAddress::Tcp { host, .. } = server
        && let Ok(host) = ServerName::try_from(host.as_str())
        && let Some(text) = tls::certificate_error(failed, &host)
    {
        let text = format!("cannot connect to the database at {server}: {text}");
        let advice = tls::show_command(server, &host);
        return PeerError::new(PeerErrorKind::Tls, Sent::No, text).with_advice(advice);
    }
    let kind = match failed.kind() {
        io::ErrorKind::ConnectionRefused => PeerErrorKind::Connect,
        io::ErrorKind::TimedOut => PeerErrorKind::Timeout,
        _ => PeerErrorKind::Lost,
    };
    PeerError::new(
        kind,
        Sent::No,
        format!("cannot connect to the database at {server}: {}", sanitize(failed.to_string())),
    )
}
