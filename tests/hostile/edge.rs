//! Interface to an edge under attack: its configuration, its work, and the count of completed work.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use orchestrator_harness::TestEnv;

use crate::{behaviour::Behaviour, client::Endpoint, generator::Protocol, switch::Switch};

/// Parameters of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The edge's name, for example `redis`.
    pub(crate) edge: &'static str,
    /// The behaviour of its peer.
    pub(crate) behaviour: Behaviour,
    /// True for the second run. What the first one left on a shared server stays there.
    pub(crate) is_again: bool,
    /// Directory of the instance.
    pub(crate) directory: PathBuf,
}

impl Plan {
    /// Unique name of lower case letters and underscores.
    pub(crate) fn name(&self) -> String {
        format!("{}_{}{}", self.edge, self.behaviour, if self.is_again { "_again" } else { "" })
    }
}

/// Side of the hostile peers.
pub(crate) enum Side {
    /// Servers behind the address that the edge connects to.
    Servers(Switch, SocketAddr),
    /// Clients of the address that the edge listens at, which is known once the instance runs.
    Clients(Box<dyn Fn(&TestEnv) -> Endpoint + Send>),
}

impl Side {
    /// Side of an edge that connects to the loopback server at `port`, and the switch in front of it.
    pub(crate) fn servers(port: u16) -> (Switch, Self) {
        let switch = Switch::to_port(port);
        (switch.clone(), Self::Servers(switch, SocketAddr::from(([127, 0, 0, 1], port))))
    }
}

/// Edge with its correct peer and its work. It is dropped after the instance.
pub(crate) trait Edge: Send {
    /// Protocol of its hostile peers.
    fn protocol(&self) -> Arc<dyn Protocol>;

    /// Side of its hostile peers.
    fn side(&mut self) -> &mut Side;

    /// Further sections of the configuration.
    fn sections(&self) -> String;

    /// Documented memory limit of this edge beyond the steady RSS, bytes.
    fn budget(&self) -> u64;

    /// Gives the edge work unless it has enough. Called repeatedly, also during the attack.
    fn feed(&mut self, _env: &TestEnv) {}

    /// Called once its peer is frozen. An edge whose peer owes nothing begins a request.
    fn peer_is_frozen(&mut self, _env: &TestEnv) {}

    /// Called when the attack is over and the correct peer listens.
    fn peer_is_sane(&mut self, _env: &TestEnv) {}

    /// Number of completed work items; it grows with correct peers only.
    fn done(&mut self, env: &TestEnv) -> u64;

    /// Further checks after the recovery.
    fn finish(&mut self, _env: &TestEnv) {}
}

/// Creates the edge of a cell.
pub(crate) type Build = fn(&Plan) -> Box<dyn Edge>;

/// Name of an edge, its constructor, and the behaviours of its peers.
pub(crate) type Cells = (&'static str, Build, &'static [Behaviour]);
