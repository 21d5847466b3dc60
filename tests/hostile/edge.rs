//! An edge under attack: how it is configured, what it is given to do, and how that is seen to be done.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use orchestrator_harness::TestEnv;

use crate::{behaviour::Behaviour, client::Endpoint, generator::Protocol, switch::Switch};

/// Purpose of a fixture.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The edge's name, for example `redis`.
    pub(crate) edge: &'static str,
    /// The behaviour of its peer.
    pub(crate) behaviour: Behaviour,
    /// Directory of the instance.
    pub(crate) directory: PathBuf,
}

impl Plan {
    /// Name that no other cell has, of lower case letters and underscores.
    pub(crate) fn name(&self) -> String {
        format!("{}_{}", self.edge, self.behaviour)
    }
}

/// Where the hostile peers are.
pub(crate) enum Side {
    /// Behind the address that the edge dials.
    Servers(Switch, SocketAddr),
    /// In front of the address that the edge listens at, which is known once the instance runs.
    Clients(Box<dyn Fn(&TestEnv) -> Endpoint + Send>),
}

impl Side {
    /// The side of an edge that dials the server at `port` of loopback, and the switch before it.
    pub(crate) fn servers(port: u16) -> (Switch, Self) {
        let switch = Switch::to_port(port);
        (switch.clone(), Self::Servers(switch, SocketAddr::from(([127, 0, 0, 1], port))))
    }
}

/// An edge with its sane peer and the work that goes through it. Dropped after the instance.
pub(crate) trait Edge: Send {
    /// Protocol of its hostile peers.
    fn protocol(&self) -> Arc<dyn Protocol>;

    /// Where they are.
    fn side(&mut self) -> &mut Side;

    /// Sections of the configuration beside those that every instance has.
    fn sections(&self) -> String;

    /// Bytes that this edge may hold for its peers on top of the steady RSS, as its crate's pages say.
    fn budget(&self) -> u64;

    /// Gives the edge work, unless it has enough. Called again and again, also during the attack.
    fn feed(&mut self, _env: &TestEnv) {}

    /// Called when the attack is over and the sane peer listens.
    fn peer_is_sane(&mut self, _env: &TestEnv) {}

    /// Work that has come through the edge; grows with sane peers only.
    fn done(&mut self, env: &TestEnv) -> u64;

    /// Further assertions, once the edge works again.
    fn finish(&mut self, _env: &TestEnv) {}
}

/// Makes the fixture of a cell.
pub(crate) type Build = fn(&Plan) -> Box<dyn Edge>;
