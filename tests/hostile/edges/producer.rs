//! The producer's edges. Completed work: jobs that the server accepted.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
};

use orchestrator_harness::{DATABASE, Faktory, MongoDb, TANGLES, Tanglenomicon, TestEnv};
use serde_json::{Value, json};

use crate::{
    edge::{Edge, Plan, Side},
    generator::{Login, Protocol},
    protocols,
};

/// Tangles for 10,000 jobs, more than are pushed during a cell.
const TANGLES_COUNT: u64 = 100;
/// Option that limits the rate to about 100 jobs per second.
const PACE: [&str; 2] = ["--push-latency-ms", "50"];

/// User of databases with a password.
pub(crate) const USER: &str = "ada";
/// Password of this user.
pub(crate) const PASSWORD: &str = "lovelace";

struct Producer {
    queue: Faktory,
    sections: String,
    protocol: Arc<dyn Protocol>,
    side: Side,
    budget: u64,
}

/// Database shared by all cells; each has its own stencils.
fn database() -> &'static MongoDb {
    static SHARED: OnceLock<MongoDb> = OnceLock::new();
    SHARED.get_or_init(|| with_tangles(MongoDb::start()))
}

/// Database with a password, shared likewise.
fn locked_database() -> &'static MongoDb {
    static SHARED: OnceLock<MongoDb> = OnceLock::new();
    SHARED.get_or_init(|| with_tangles(MongoDb::start_with_password(USER, PASSWORD)))
}

fn with_tangles(server: MongoDb) -> MongoDb {
    let tangle = |number| json!({"_id": {"$oid": Tanglenomicon::tangle_id(2, number)}, "notation": "n", "TCN": 2, "is_good": true, "positivity": "neutral"});
    server.insert(DATABASE, TANGLES, &(0..TANGLES_COUNT).map(tangle).collect::<Vec<Value>>());
    server
}

fn sections(stencils: &str, database: &str, queue: impl ToString) -> String {
    format!(
        "[producer]\npage_size = 1\nchunk = 5\npoll_ms = 100\n\
         [producer.faktory]\nurl = \"tcp://{}\"\n\
         [producer.mongodb]\n{database}\nstencils = \"{stencils}\"\n",
        queue.to_string(),
    )
}

fn stencils(plan: &Plan, database: &MongoDb) -> String {
    let name = plan.name();
    let stencil = json!({"_id": {"$oid": Tanglenomicon::stencil_id(0)}, "TCN": 4, "rootstock_tcn": 2, "scion_tcn": 2, "state": 0});
    let config = json!({"_id": "config", "current_completed_tcn": 3, "max_tcn": 4});
    database.insert(DATABASE, &name, &[stencil, config]);
    name
}

/// The producer's Faktory.
pub(crate) fn faktory(plan: &Plan) -> Box<dyn Edge> {
    let queue = Faktory::start(&PACE);
    let (switch, side) = Side::servers(queue.port());
    let uri = format!("uri = \"mongodb://127.0.0.1:{}\"", database().port());
    let sections = sections(&stencils(plan, database()), &uri, switch.address());
    // A reply of 8 MiB on each of up to two connections, with spare buffer capacity.
    Box::new(Producer { queue, sections, protocol: Arc::new(protocols::Faktory), side, budget: 32 << 20 })
}

/// The producer's MongoDB.
pub(crate) fn mongodb(plan: &Plan) -> Box<dyn Edge> {
    let uri = |address: SocketAddr| format!("uri = \"mongodb://{address}\"");
    mongodb_of(plan, database(), Login::ShortNonce, uri)
}

/// The producer's MongoDB with a password, and a nonce that is too short.
pub(crate) fn mongodb_nonce(plan: &Plan) -> Box<dyn Edge> {
    mongodb_of(plan, locked_database(), Login::ShortNonce, |address| uri_file(&plan.directory, address))
}

/// The producer's MongoDB with a password, and endless iterations.
pub(crate) fn mongodb_iterations(plan: &Plan) -> Box<dyn Edge> {
    mongodb_of(plan, locked_database(), Login::Iterations, |address| uri_file(&plan.directory, address))
}

fn mongodb_of(
    plan: &Plan,
    database: &MongoDb,
    login: Login,
    uri: impl FnOnce(SocketAddr) -> String,
) -> Box<dyn Edge> {
    let queue = Faktory::start(&PACE);
    let (switch, side) = Side::servers(database.port());
    let queue_address = format!("127.0.0.1:{}", queue.port());
    let sections = sections(&stencils(plan, database), &uri(switch.address()), queue_address);
    // A message of 48 MB, the protocol's own limit.
    Box::new(Producer {
        queue,
        sections,
        protocol: Arc::new(protocols::MongoDb(login)),
        side,
        budget: 48 << 20,
    })
}

/// Writes an address with a password into a file. Returns the key for it.
pub(crate) fn uri_file(directory: &Path, address: SocketAddr) -> String {
    let file = directory.join("uri");
    fs::write(&file, format!("mongodb://{USER}:{PASSWORD}@{address}\n")).expect("write a file");
    format!("uri_file = {file:?}")
}

impl Edge for Producer {
    fn protocol(&self) -> Arc<dyn Protocol> {
        self.protocol.clone()
    }

    fn side(&mut self) -> &mut Side {
        &mut self.side
    }

    fn sections(&self) -> String {
        self.sections.clone()
    }

    fn budget(&self) -> u64 {
        self.budget
    }

    fn done(&mut self, _env: &TestEnv) -> u64 {
        self.queue.accepted().len() as u64
    }
}
