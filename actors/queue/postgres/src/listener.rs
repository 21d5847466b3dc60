//! The listener: a thread that receives what other sessions add to `ready`, on a session of its own that has
//! no transaction.

use std::time::Duration;

use orchestrator_edge::{LinkState, Reconnecting, RetryPolicy, postgres::SessionSettings};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::{Fault, StartCx};

use super::{
    error::{Lost, storage_error},
    scan_start::AddedKeys,
    server_session::Session,
    settings::{Settings, runtime},
};
use crate::InstanceConfig;

/// Interval at which an idle session is asked whether it lives.
const CHECK: Duration = Duration::from_secs(15);

const SESSION: SessionSettings = SessionSettings {
    sql: &["SET statement_timeout = '3s'"],
    connect_timeout: Duration::from_secs(5),
    answer_timeout: Duration::from_secs(5),
    row_max: 64 << 10,
    answer_max: 1 << 20,
};

/// The child: configuration of all incarnations of the thread.
pub(crate) struct Listener {
    pub(crate) config: InstanceConfig,
    pub(crate) added: AddedKeys,
}

impl Listener {
    /// Runs one incarnation of the thread.
    pub(crate) fn run(&self, cx: &StartCx) -> Result<(), Fault> {
        let link = LinkState::new(cx, "postgres", self.config.postgres.endpoint(), RetryPolicy::REMOTE);
        let runtime = runtime().map_err(|error| Fault::from_error(&error))?;
        let mut edge = self;
        runtime.block_on(Reconnecting::run(&mut edge, &link));
        Ok(())
    }

    async fn receive(&self, mut session: Session, link: &LinkState) -> Result<(), StorageError> {
        loop {
            link.succeeded();
            match session.0.notified(CHECK).await.map_err(storage_error)? {
                Some(notification) => self.added.add(notification.payload()),
                None => session.batch("checking the session", "SELECT 1").await?,
            }
            if session.0.take_dropped() > 0 {
                self.added.add_unknown();
            }
        }
    }
}

impl Reconnecting for &Listener {
    type Connection = Session;
    type Error = Lost;

    async fn connect(&mut self) -> Result<Session, Lost> {
        let settings = Settings::read(&self.config)?;
        let mut session = Session::open(&settings.address, &SESSION).await?;
        session.batch("listening", &format!("LISTEN {}", settings.schema)).await?;
        Ok(session)
    }

    async fn serve(&mut self, session: Session, link: &LinkState) -> Result<(), Lost> {
        tokio::select! {
            biased;
            () = link.stopped() => Ok(()),
            ended = self.receive(session, link) => Ok(ended?),
        }
    }
}
