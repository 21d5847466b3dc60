//! State of the endpoint that all incarnations share.

use std::{collections::BTreeMap, path::PathBuf, sync::OnceLock};

use parking_lot::Mutex;

use crate::{
    AdminConfig, AdminError, ProgramInfo,
    audit::Audit,
    history::{self, History, LIMIT_BYTES},
    listeners::ListenAddresses,
    memory::Memory,
    tokens::Tokens,
    why::EventFacts,
};

/// State that outlives an incarnation of the endpoint.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) addresses: ListenAddresses,
    /// Tokens for TCP. With `None`, every TCP client is an operator.
    pub(crate) tokens: Option<Tokens>,
    pub(crate) audit: Audit,
    /// Accepted names in `Host` besides the local ones.
    pub(crate) hosts: Vec<String>,
    pub(crate) event_clients_max: usize,
    pub(crate) program_info: ProgramInfo,
    /// Time when the tree was built, in milliseconds since 1970.
    pub(crate) started_ms: OnceLock<u64>,
    pub(crate) history: Mutex<History>,
    history_path: Option<PathBuf>,
    pub(crate) memory: Memory,
    /// Operator and reason of each console's `pause` that was not resumed, by path.
    pub(crate) console_pauses: Mutex<BTreeMap<String, String>>,
    /// Facts that `GET /v1/why` has read from the events.
    pub(crate) event_facts: Mutex<EventFacts>,
}

impl EndpointState {
    /// Checks the configuration and reads the tokens file.
    pub(crate) fn new(config: &AdminConfig, program_info: ProgramInfo) -> Result<Self, AdminError> {
        let addresses = config.addresses()?;
        let tokens =
            config.tokens_path().map(|path| Tokens::open(path, program_info.reload.clone())).transpose()?;
        Ok(Self {
            addresses: ListenAddresses::new(addresses),
            tokens,
            audit: Audit::new(config.audit_path()),
            hosts: config.allowed_hosts.clone(),
            event_clients_max: config.max_event_clients,
            started_ms: OnceLock::new(),
            history: Mutex::new(History::new(LIMIT_BYTES)),
            history_path: config.history_path(&program_info.subsystems),
            memory: Memory::new(config.memory_budget),
            console_pauses: Mutex::default(),
            event_facts: Mutex::default(),
            program_info,
        })
    }

    /// Reads the history of the former process. A damaged file is reported, and the history begins empty.
    pub(crate) fn load_history(&self) {
        let Some(path) = &self.history_path else { return };
        match history::load(path) {
            Ok(Some(former)) => *self.history.lock() = former,
            Ok(None) => {}
            Err(error) => tracing::warn!("the history begins empty: {}: {error}", path.display()),
        }
    }

    /// Writes the history for the next process.
    pub(crate) fn store_history(&self) {
        let Some(path) = &self.history_path else { return };
        if let Err(error) = history::store(&self.history.lock(), path) {
            let free = orchestrator_edge::free_space(path);
            tracing::warn!("the history is not kept: {}: {error}; {free}", path.display());
        }
    }
}
