//! An instance with all five subsystems under load, and the six servers that it needs.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::Duration,
};

use orchestrator_harness::{
    Controller, Ermrest, Faktory, Instance, LEASED_RULE, MongoDb, Postgres, Rabbit, Redis, Tanglenomicon,
    TestEnv, eventually, free_port, http, sha1_of,
};
use serde_json::json;

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
/// Options of the Faktory server, which make the producer push for longer than the test takes.
pub(crate) const SLOW_PUSHES: [&str; 2] = ["--push-latency-ms", "20"];

/// The servers. RabbitMQ, which takes long to start, is left out on request.
pub(crate) struct Servers {
    pub(crate) postgres: Postgres,
    pub(crate) rabbit: Option<Rabbit>,
    pub(crate) redis: Redis,
    pub(crate) mongodb: MongoDb,
    pub(crate) faktory: Faktory,
    pub(crate) ermrest: Ermrest,
    dsn: String,
}

impl Servers {
    fn start(with_broker: bool) -> Self {
        let rabbit = thread::spawn(move || with_broker.then(Rabbit::start));
        let (postgres, mongodb) = (Postgres::start(), MongoDb::start());
        let dsn = postgres.create_database("provenance");
        let many = Tanglenomicon {
            completed_and_max: (3, 4),
            stencils: vec![(4, 2, 2); 40],
            tangles: vec![(2, 60)],
        };
        many.fill(&mongodb);
        Self {
            postgres,
            rabbit: rabbit.join().expect("a broker"),
            redis: Redis::start_persistent(),
            mongodb,
            faktory: Faktory::start(&SLOW_PUSHES),
            ermrest: Ermrest::start(&[]),
            dsn,
        }
    }

    fn configuration(&self, env: &TestEnv) -> String {
        let directory = env.path().display();
        let transport = match &self.rabbit {
            Some(rabbit) => format!("transport = \"amqp\"\namqp.url = {:?}\n", rabbit.url()),
            None => format!("dead_letters = \"{directory}/letters.db\"\n"),
        };
        format!(
            "[admin]\nlisten = \"\"\nunix_socket = \"{directory}/admin.sock\"\n\
             [queue]\ndatabase = \"{directory}/queue.db\"\ninput_dir = \"{directory}/fetchers\"\n\
             socket = \"{directory}/worker.sock\"\n\
             [provenance]\n{transport}writer.kind = \"postgres\"\npostgres.dsn = {dsn:?}\n\
             [producer]\npage_size = 1\nchunk = 10\npoll_ms = 20\n\
             faktory.url = {faktory:?}\nmongodb.uri = {mongodb:?}\n\
             [[ingester]]\nname = \"eiger-ingester\"\nlisten = \"127.0.0.1:{port}\"\nredis_url = {redis:?}\n\
             spill_dir = \"{directory}\"\n\
             [[ingester.stream]]\nname = \"eiger\"\nsource = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"\n\
             [[catalog]]\nname = \"lab\"\nbase = {ermrest:?}\namqp = \"\"\npoll_without_notices_secs = 0.1\n{LEASED_RULE}",
            dsn = self.dsn,
            faktory = self.faktory.url(),
            mongodb = self.mongodb.uri(),
            port = free_port(),
            redis = self.redis.url(),
            ermrest = self.ermrest.url(),
        )
    }

    /// Waits until the instance works with all servers.
    fn await_work(&self, env: &TestEnv) {
        eventually("the endpoint", || env.snapshot().is_some());
        let ready = || http(&env.admin_socket(), "GET", "/readyz", &[], "").status == 200;
        eventually("readiness", ready);
        Controller::new(&self.redis, "eiger-ingester").start_mapping(MAPPING, &[]);
        for branch in ["provenance", "ingester", "producer", "catalog"] {
            eventually(&format!("{branch} to work"), || env.causes(branch).is_empty());
        }
    }
}

/// Ends the load when dropped, also after a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Imports rows until `ended`. Imports fail while a server is away.
fn import(env: &TestEnv, ended: &AtomicBool) {
    let row = |number| json!({ "add": "content", "id": sha1_of(0, number) }).to_string() + "\n";
    let file = env.path().join("rows.jsonl");
    fs::write(&file, (0..2_000).map(row).collect::<String>()).expect("write a file of rows");
    while !ended.load(SeqCst) {
        env.cli(&["provenance", "import", &file.display().to_string()]);
    }
}

/// Runs `body` with all servers and an instance under load.
pub(crate) fn with_servers(with_broker: bool, body: impl FnOnce(&TestEnv, &mut Servers)) {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let mut servers = Servers::start(with_broker);
    let (code, _, error) = env.cli(&["provenance", "init", "--dsn", &servers.dsn]);
    assert_eq!(code, 0, "{error}");
    let config = env.path().join("all.toml");
    fs::write(&config, servers.configuration(&env)).expect("write the configuration");
    let mut command = env.bare_command();
    command.args(["run", "--config"]).arg(&config);
    let _instance = Instance::spawn(command);
    servers.await_work(&env);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ended(&ended);
        scope.spawn(|| import(&env, &ended));
        eventually("some rows", || env.metric("provenance/writer", "written") > 0);
        body(&env, &mut servers);
        drop(ends);
    });
}

/// Metric of one cause of the child at `path`.
pub(crate) fn is_counted(env: &TestEnv, path: &str, cause: &str) -> bool {
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    let line = format!("orchestrator_blocked{{path=\"orchestrator/{path}\",cause=\"{cause}\"}} 1");
    metrics.lines().any(|known| known == line)
}

/// Returns true if `/readyz` is 503 and gives the reason `text` for the child at `path`.
pub(crate) fn is_unready_because(env: &TestEnv, path: &str, text: &str) -> bool {
    let reply = http(&env.admin_socket(), "GET", "/readyz", &[], "");
    reply.status == 503 && reply.body.contains(&format!("failed: orchestrator/{path}: {text}"))
}

/// Longest time until a killed server is named, and until its cause is gone after its return.
pub(crate) const NOTICED_MAX: Duration = Duration::from_secs(3);
