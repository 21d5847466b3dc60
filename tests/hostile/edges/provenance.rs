//! Provenance's edges. Completed work: stored rows.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use orchestrator_harness::{Database, MongoDb, Postgres, TestEnv, psql, sha1_of, try_http};
use serde_json::json;

use crate::{
    edge::{Edge, Plan, Side},
    edges::{
        broker::broker,
        producer::{PASSWORD, USER, uri_file},
    },
    generator::{Login, Protocol},
    protocols,
};

/// Range 0 only, for fewer queues and fewer children.
const RANGE: &str = "ranges = \"0\"";

/// Interval of calls, each of which writes an audit line.
const PACE: Duration = Duration::from_millis(200);

/// Source of the number of stored rows.
enum Count {
    /// The writer's metric.
    Written,
    /// The rows in this database.
    Rows(String),
    /// The rows in this SQLite file.
    File(PathBuf),
}

struct Provenance {
    sections: String,
    protocol: Arc<dyn Protocol>,
    side: Side,
    budget: u64,
    count: Count,
    rows: u32,
    addition: Option<JoinHandle<()>>,
    added: Instant,
}

impl Provenance {
    fn fixture(
        sections: String,
        protocol: impl Protocol + 'static,
        side: Side,
        budget: u64,
        count: Count,
    ) -> Box<dyn Edge> {
        let protocol = Arc::new(protocol);
        Box::new(Self {
            sections,
            protocol,
            side,
            budget,
            count,
            rows: 0,
            addition: None,
            added: Instant::now(),
        })
    }
}

/// The broker between client and workers of the same process.
pub(crate) fn amqp(plan: &Plan) -> Box<dyn Edge> {
    let (port, vhost) = broker(plan);
    let (switch, side) = Side::servers(port);
    let file = plan.directory.join("provenance.db");
    let sections = format!(
        "[provenance]\n{RANGE}\ntransport = \"amqp\"\n[provenance.amqp]\nurl = \"amqp://guest:guest@{}/{vhost}\"\n\
         [provenance.sqlite]\npath = {file:?}\n",
        switch.address(),
    );
    // A message of 128 MiB, and for each of two connections 64 frames of 128 KiB
    // (actors/provenance/README.md).
    Provenance::fixture(sections, protocols::Amqp, side, 144 << 20, Count::File(file))
}

/// The store in PostgreSQL.
pub(crate) fn postgres(plan: &Plan) -> Box<dyn Edge> {
    static SHARED: OnceLock<(Postgres, Mutex<String>)> = OnceLock::new();
    let (server, template) = SHARED.get_or_init(|| {
        let server = Postgres::start();
        let template = server.create_database("template");
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        let (code, _, error) = env.cli(&["provenance", "init", "--dsn", &template]);
        assert_eq!(code, 0, "{error}");
        (server, Mutex::new(template))
    });
    let template = template.lock().unwrap_or_else(PoisonError::into_inner);
    let (server_address, _) = template.rsplit_once('/').expect("an address");
    let name = plan.name();
    server
        .script(&format!("{server_address}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template"));
    let port = server_address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
    let (switch, side) = Side::servers(port);
    let dsn = format!("{server_address}/{name}");
    let sections = format!(
        "[provenance]\ndead_letters = \"{0}/letters.db\"\n[provenance.writer]\nkind = \"postgres\"\n\
         [provenance.postgres]\ndsn = \"postgresql://postgres@{1}/{name}\"\n",
        plan.directory.display(),
        switch.address(),
    );
    // An answer of 64 MiB (actors/provenance/README.md).
    Provenance::fixture(sections, protocols::Postgres, side, 64 << 20, Count::Rows(dsn))
}

/// The store in MongoDB.
pub(crate) fn mongodb(plan: &Plan) -> Box<dyn Edge> {
    static SHARED: OnceLock<MongoDb> = OnceLock::new();
    let uri = |address| format!("uri = \"mongodb://{address}\"");
    mongodb_of(plan, SHARED.get_or_init(MongoDb::start), Login::ShortNonce, uri)
}

/// The store in MongoDB with a password, and a nonce that is too short.
pub(crate) fn mongodb_nonce(plan: &Plan) -> Box<dyn Edge> {
    mongodb_of(plan, locked_database(), Login::ShortNonce, |address| uri_file(&plan.directory, address))
}

/// The store in MongoDB with a password, and endless iterations.
pub(crate) fn mongodb_iterations(plan: &Plan) -> Box<dyn Edge> {
    mongodb_of(plan, locked_database(), Login::Iterations, |address| uri_file(&plan.directory, address))
}

fn locked_database() -> &'static MongoDb {
    static SHARED: OnceLock<MongoDb> = OnceLock::new();
    SHARED.get_or_init(|| MongoDb::start_with_password(USER, PASSWORD))
}

fn mongodb_of(
    plan: &Plan,
    server: &MongoDb,
    login: Login,
    uri: impl FnOnce(SocketAddr) -> String,
) -> Box<dyn Edge> {
    let (switch, side) = Side::servers(server.port());
    let sections = format!(
        "[provenance]\ndead_letters = \"{}/letters.db\"\n[provenance.writer]\nkind = \"mongodb\"\n\
         [provenance.mongodb]\n{}\ndatabase = \"{}\"\n",
        plan.directory.display(),
        uri(switch.address()),
        plan.name(),
    );
    // A message of 48 MiB, the limit that the server announces (actors/provenance/README.md).
    Provenance::fixture(sections, protocols::MongoDb(login), side, 48 << 20, Count::Written)
}

impl Edge for Provenance {
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

    /// One call at a time; an unanswered call times out.
    fn feed(&mut self, env: &TestEnv) {
        let is_under_way = self.addition.as_ref().is_some_and(|addition| !addition.is_finished());
        if is_under_way || self.added.elapsed() < PACE {
            return;
        }
        self.added = Instant::now();
        self.rows += 1;
        // The id belongs to range 0.
        let row = json!({"add": "content", "id": sha1_of(0, self.rows * 16), "date": "2005-03-18T01:58:31Z"});
        let (socket, body) = (env.admin_socket(), json!({"rows": [row]}).to_string());
        self.addition = Some(thread::spawn(move || {
            let json = ["Content-Type: application/json"];
            // Stored rows are counted elsewhere.
            let _ = try_http(&socket, "POST", "/v1/consoles/provenance/rmq_client/add", &json, &body);
        }));
    }

    fn done(&mut self, env: &TestEnv) -> u64 {
        match &self.count {
            Count::Written => env.metric("provenance/writer", "written"),
            Count::Rows(dsn) => psql(dsn, "SELECT count(*) FROM content")
                .ok()
                .and_then(|count| count.parse().ok())
                .unwrap_or(0),
            Count::File(path) => {
                let count = Database::open(path).rows("SELECT count(*) FROM content");
                count[0].parse().expect("a count")
            }
        }
    }
}
