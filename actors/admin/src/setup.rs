//! What the endpoint is set up with: made once from the configuration, shared by all incarnations.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::{
    About, AdminConfig, AdminError,
    audit::Audit,
    history::{History, LIMIT_BYTES},
    listeners::Places,
    tokens::Tokens,
};

/// Everything that outlives an incarnation.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) places: Places,
    /// None: whoever reaches the port is an operator.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) audit: Audit,
    /// Names in `Host` besides the local ones.
    pub(crate) hosts: Vec<String>,
    pub(crate) event_clients_max: usize,
    pub(crate) about: About,
    /// When the tree was built, milliseconds since 1970.
    pub(crate) started_ms: OnceLock<u64>,
    pub(crate) history: Mutex<History>,
}

impl Setup {
    /// Checks the configuration and reads the files that it names.
    pub(crate) fn new(config: &AdminConfig, about: About) -> Result<Self, AdminError> {
        let addresses = config.addresses()?;
        let tokens = config.tokens_path().map(|path| Tokens::open(path, about.reload.clone())).transpose()?;
        Ok(Self {
            places: Places::new(addresses),
            tokens,
            audit: Audit::new(config.audit_path()),
            hosts: config.allowed_hosts.clone(),
            event_clients_max: config.max_event_clients,
            about,
            started_ms: OnceLock::new(),
            history: Mutex::new(History::new(LIMIT_BYTES)),
        })
    }
}
