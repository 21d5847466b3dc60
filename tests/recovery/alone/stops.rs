//! Duration of a stop while servers are away or frozen, with all five subsystems in one process.

mod relay;

use std::{
    cell::Cell,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Ermrest, FULL_RULE, Faktory, Instance, MongoDb, Postgres, Rabbit, Redis, Reply, Tanglenomicon, TestEnv,
    eventually, free_port, sha1_of,
};
use rustix::process::Signal;
use serde_json::Value;

use relay::{Mode, Relay};

/// Children whose links show that the six servers are used.
const LINKS: [(&str, Server); 7] = [
    ("provenance/writer", Server::Postgres),
    ("provenance/amqp", Server::Rabbit),
    ("catalog/noticed/notices", Server::Rabbit),
    ("catalog/lab/http", Server::Ermrest),
    ("ingester/eiger/redis", Server::Redis),
    ("producer/stencil_producer", Server::Mongo),
    ("producer/faktory/0", Server::Faktory),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Postgres,
    Rabbit,
    Ermrest,
    Redis,
    Mongo,
    Faktory,
}

/// Host and port of an address with a user.
fn authority(address: &str) -> &str {
    let rest = address.rsplit('@').next().unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

/// All servers, and the configuration of a process that uses them through relays.
struct Fixture {
    env: TestEnv,
    relays: Vec<(Server, Relay)>,
    /// Number of the next run of the fetcher file.
    runs: Cell<u32>,
    servers: (Redis, MongoDb, Faktory, Ermrest),
}

impl Fixture {
    fn new() -> Self {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        let (postgres, rabbit) = (Postgres::shared(), Rabbit::shared());
        let (dsn, url) = (postgres.create_database("stops"), rabbit.create_vhost("stops"));
        let (code, _, err) = env.cli(&["provenance", "init", "--dsn", &dsn, "--flavor", "with-path"]);
        assert_eq!(code, 0, "{err}");
        let servers = (Redis::start(), MongoDb::start(), Faktory::start(&[]), Ermrest::start(&[]));
        let (redis, mongo, faktory, ermrest) = &servers;
        Tanglenomicon::small().fill(mongo);
        let local = |port| Relay::to(&format!("127.0.0.1:{port}"));
        let relays = vec![
            (Server::Postgres, Relay::to(authority(&dsn))),
            (Server::Rabbit, Relay::to(authority(&url))),
            (Server::Ermrest, local(ermrest.port())),
            (Server::Redis, local(redis.port())),
            (Server::Mongo, local(mongo.port())),
            (Server::Faktory, local(faktory.port())),
        ];
        let fixture = Self { env, relays, runs: Cell::new(1), servers };
        fs::write(fixture.config(), fixture.text(&dsn, &url)).expect("write the configuration");
        fixture
    }

    fn config(&self) -> PathBuf {
        self.env.path().join("all.toml")
    }

    fn text(&self, dsn: &str, url: &str) -> String {
        let port = |server| self.relay(server).port;
        let through = |address: &str, server| {
            address.replace(authority(address), &format!("127.0.0.1:{}", port(server)))
        };
        let (dsn, url) = (through(dsn, Server::Postgres), through(url, Server::Rabbit));
        format!(
            r#"
[provenance]
transport = "amqp"
amqp = {{ url = "{url}" }}
writer = {{ kind = "postgres" }}
postgres = {{ dsn = "{dsn}" }}
[producer]
poll_ms = 200
mongodb = {{ uri = "mongodb://127.0.0.1:{mongo}" }}
faktory = {{ url = "tcp://127.0.0.1:{faktory}" }}
[[ingester]]
name = "eiger"
listen = "127.0.0.1:{workers}"
redis_url = "redis://127.0.0.1:{redis}/0"
spill_dir = "."
[[ingester.stream]]
name = "eiger"
source = "stins"
upstream_url = "tcp://127.0.0.1:9"
[[catalog]]
name = "lab"
base = "http://127.0.0.1:{ermrest}/ermrest/catalog/1"
poll_without_notices_secs = 0.25
grace_ms = 2000
amqp = ""
{FULL_RULE}
handler = {{ kind = "command", argv = ["/bin/sleep", "600"] }}
[[catalog]]
name = "noticed"
base = "http://127.0.0.1:{ermrest}/ermrest/catalog/1"
amqp = "{url}"
"#,
            mongo = port(Server::Mongo),
            faktory = port(Server::Faktory),
            workers = free_port(),
            redis = port(Server::Redis),
            ermrest = port(Server::Ermrest),
        )
    }

    fn relay(&self, server: Server) -> &Relay {
        &self.relays.iter().find(|(of, _)| *of == server).expect("each has one").1
    }

    fn start(&self) -> Instance {
        let mut command = self.env.command();
        command.arg("--config").arg(self.config());
        let instance = Instance::spawn(command);
        instance.await_service(&self.env);
        for (child, _) in LINKS {
            eventually(&format!("{child} to be up"), || self.env.link(child).state == "up");
        }
        instance
    }

    /// Starts a process, turns `servers` to `mode` while rows are stored, and returns how long the stop took
    /// and what was logged by it.
    fn stop(&self, servers: &[Server], mode: Mode) -> (Duration, String) {
        self.relays.iter().for_each(|(_, relay)| relay.turn(Mode::Works));
        let before = self.env.log().len();
        let mut instance = self.start();
        let run = self.runs.replace(self.runs.get() + 1);
        self.env.write(&format!("f.{run}.txt"), format!("alpha{run} 0 1\nbeta{run} 0 1\n"));
        let mut worker = self.env.worker();
        eventually("a job", || matches!(worker.ready(), Reply::Job { .. }));
        if servers.len() == LINKS.len() - 1 {
            // A running handler gets its grace period.
            self.servers.3.insert_foo(2, "actionable");
            let rows = || self.servers.3.rows("Foo");
            eventually("rows to be claimed", || rows().iter().all(|row| row["state"] == "claimed"));
        }
        servers.iter().for_each(|server| self.relay(*server).turn(mode));
        let mut add = self.add_rows();
        if mode == Mode::Frozen && !servers.contains(&Server::Rabbit) && servers.contains(&Server::Postgres) {
            eventually("a write to be in progress", || {
                self.env.node("provenance/writer")["in_progress"] != Value::Null
            });
        }
        if mode == Mode::Away {
            for (child, _) in LINKS.iter().filter(|(_, server)| servers.contains(server)) {
                eventually(&format!("{child} to be down"), || self.env.link(child).state == "down");
            }
        }
        let begun = Instant::now();
        instance.signal(Signal::TERM);
        let status = instance.wait();
        let (took, log) = (begun.elapsed(), self.env.log()[before..].to_owned());
        let _ = (add.kill(), add.wait());
        assert_eq!(status.code(), Some(0), "{servers:?}: {log}");
        self.assert_queue_stopped_orderly(&log);
        (took, log)
    }

    /// Adds rows by the console, whose messages are unacknowledged while the database is away.
    fn add_rows(&self) -> Child {
        let rows: String =
            (0..200).map(|n| format!("{{\"add\": \"content\", \"id\": \"{}\"}}\n", sha1_of(0, n))).collect();
        let file = self.env.path().join("rows.jsonl");
        fs::write(&file, rows).expect("write rows");
        let mut command = Command::new(self.env.binary());
        command.args(["provenance", "import"]).arg(&file).env("ORCHESTRATOR_SOCKET", self.env.admin_socket());
        command.current_dir(self.env.path()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the client starts")
    }

    fn assert_queue_stopped_orderly(&self, log: &str) {
        let is_late =
            |line: &str| line.contains("did not stop in time") && line.contains("orchestrator/queue");
        assert!(!log.lines().any(is_late), "a child of the queue was killed: {log}");
        assert!(!self.env.socket().exists(), "the socket is left");
        let wal = fs::metadata(self.env.path().join("queue.db-wal")).map_or(0, |meta| meta.len());
        assert_eq!(wal, 0, "the write-ahead log is not checkpointed");
    }
}

/// The table of servers: away, the stop takes at most 2 s; frozen, at most 10 s.
#[test]
fn a_stop_takes_two_seconds_with_a_server_away_and_ten_with_two_frozen() {
    let fixture = Fixture::new();
    let all =
        [Server::Postgres, Server::Rabbit, Server::Ermrest, Server::Redis, Server::Mongo, Server::Faktory];
    let mut slow = Vec::new();
    let mut stop = |servers: &[Server], mode, seconds| {
        let (took, log) = fixture.stop(servers, mode);
        eprintln!("{servers:?} {mode:?}: {took:?}");
        log.lines().filter(|line| line.contains("stops: waits for ")).for_each(|line| eprintln!("  {line}"));
        if took >= Duration::from_secs(seconds) {
            slow.push(format!("{servers:?} {mode:?}: {took:?}: {log}"));
        }
        log
    };
    for server in all {
        stop(&[server], Mode::Away, 2);
    }
    stop(&[Server::Redis, Server::Mongo], Mode::Frozen, 10);
    stop(&[Server::Faktory, Server::Ermrest], Mode::Frozen, 10);
    let log = stop(&[Server::Postgres, Server::Ermrest], Mode::Frozen, 10);
    assert!(log.contains("stops: waits for ") && log.contains("provenance/"), "{log}");
    stop(&all, Mode::Frozen, 10);
    assert!(slow.is_empty(), "{slow:#?}");
}
