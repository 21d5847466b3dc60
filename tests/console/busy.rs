//! An instance of all five subsystems with their peers. Each subsystem has work in progress, a backlog and
//! failures.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    process::{Child, ChildStdin, Stdio},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use orchestrator_harness::{
    Controller, Ermrest, FULL_RULE, Faktory, Instance, MongoDb, Postgres, Redis, Reply, Tanglenomicon,
    TestEnv, Worker, ZmtpPeer, eventually, free_port, load::SeededRng, sha1_of,
};
use serde_json::{Value, json};

use crate::browser::{self, Browser};

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
const STREAMS: [&str; 2] = ["eiger", "slits"];
const WORKERS: [&str; 3] = ["fast-1", "fast-2", "slow"];
const EVENTS: u64 = 20_000;
const FRAME: usize = 256 << 10;
/// Interval between frames, between jobs of a queue worker, and between groups of rows.
const PACE: Duration = Duration::from_millis(25);
const ROWS_A_TURN: usize = 50;
const HANDLER: &str = r#"handler = { kind = "command", argv = ["/bin/sh", "-c", 'case $(cat) in *"\"id\":7,"*|*"\"id\": 7,"*) echo no such image >&2; exit 3;; esac; sleep 1'] }
concurrency = 4
limit = 8
"#;

/// All pages of [`BusyEnv`].
pub(crate) const PAGES: [&str; 7] =
    ["#/", "#/tree", "#/queue", "#/provenance", "#/ingester", "#/producer", "#/catalog"];

/// Opens a page and waits until it shows data of the program.
pub(crate) async fn until_page(browser: &Browser, page: &str) {
    // Charts and arrows have data, and each console has answered.
    const SHOWN: &str = "document.querySelector('#connection').dataset.status === 'live'
        && document.querySelector('main h1, .drawer:not([hidden]) h2')
        && ![...document.querySelectorAll('main .chart:not([hidden])')].some(c => c.querySelector('.chart-times span').textContent === '')
        && document.querySelector('.sparklines[aria-label=Charts]')?.children.length !== 0
        && ![...document.querySelectorAll('.view:not([hidden]) .view-head > .quiet')].some(at => at.textContent === '')
        && !document.querySelector('.job-page:not(:has(.job-state))')
        && ![...document.querySelectorAll('.arrow-text')].some(rates => rates.textContent.startsWith('–'))";
    browser.go(page).await;
    browser.until(page, SHOWN).await;
}

/// Running instance with its peers. Everything is ended when dropped.
#[derive(Debug)]
pub(crate) struct BusyEnv {
    pub(crate) env: TestEnv,
    /// Threads end when their senders are dropped.
    _traffic: Vec<Sender<()>>,
    import: Child,
    _instance: Instance,
    _redis: Redis,
    _database: MongoDb,
    _faktory: Faktory,
    _ermrest: Ermrest,
}

impl Drop for BusyEnv {
    fn drop(&mut self) {
        let _ = self.import.kill();
        let _ = self.import.wait();
    }
}

impl BusyEnv {
    /// Environment of the tests that run at this time and change nothing in it. The last one ends it.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<BusyEnv>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start());
            *shared = Arc::downgrade(&started);
            started
        })
    }

    /// Starts everything and waits until each subsystem works.
    fn start() -> Self {
        let (redis, database) = (Redis::start(), MongoDb::start());
        let (faktory, ermrest) = (Faktory::start(&[]), Ermrest::start(&[]));
        let many = Tanglenomicon {
            tangles: vec![(2, 200)],
            completed_and_max: (3, 5),
            stencils: vec![(4, 2, 2), (4, 2, 3), (5, 2, 2)],
        };
        many.fill(&database);
        // More than are done while all tests run.
        ermrest.insert_foo(2_000, "actionable");
        let env = settings(&database, &faktory);
        write_fetchers(&env);
        let sources = STREAMS.map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let port = free_port();
        let instance = start_instance(&env, &config(&env, &sources, port, &redis, &ermrest));
        let mut traffic: Vec<_> =
            sources.into_iter().map(|source| paced(move |stop| send_frames(&source, &stop))).collect();
        let controller = Controller::new(&redis, "beamline");
        eventually("the ingester to register", || controller.ingester_state().is_some());
        controller.start_mapping(MAPPING, &STREAMS);
        for first in (0..EVENTS).step_by(500) {
            let events: Vec<_> = (first..first + 500).map(|event| (event, assignment(event))).collect();
            controller.assign_events(MAPPING, &events);
        }
        traffic.extend(WORKERS.map(|name| {
            let peer = ZmtpPeer::connect(port, "DEALER", name).expect("the ingester listens");
            paced(move |stop| take_events(peer, name, &stop))
        }));
        let worker = env.worker();
        traffic.push(paced(move |stop| take_jobs(worker, &stop)));
        let mut import = import(&env);
        let rows = import.stdin.take().expect("a pipe");
        traffic.push(paced(move |stop| write_rows(rows, &stop)));
        let made = Self {
            env,
            _traffic: traffic,
            import,
            _instance: instance,
            _redis: redis,
            _database: database,
            _faktory: faktory,
            _ermrest: ermrest,
        };
        made.wait_until_busy();
        made
    }

    fn wait_until_busy(&self) {
        let sum = |branch: &str, name: &str| -> i64 {
            let (_, text, _) = self.env.cli(&["tree", branch, "--json"]);
            let tree: Value = serde_json::from_str(&text).unwrap_or_default();
            total(&tree["root"], name)
        };
        for (branch, name) in [
            ("queue", "finished"),
            ("provenance", "written"),
            ("provenance", "dead_lettered"),
            ("ingester", "worker_queued"),
            ("producer", "stencil_pushed"),
            ("catalog", "done"),
            ("catalog", "failed"),
        ] {
            eventually(&format!("{name} of {branch}"), || sum(branch, name) > 0);
        }
    }
}

/// Sum over a node and its descendants.
fn total(node: &Value, name: &str) -> i64 {
    let list = |key: &str| node[key].as_array().cloned().unwrap_or_default();
    let own = list("metrics")
        .iter()
        .filter(|one| one["name"] == name)
        .filter_map(|one| one["value"].as_i64())
        .sum::<i64>();
    own + list("children").iter().map(|child| total(child, name)).sum::<i64>()
}

/// Runs `work` in a thread; the receiver reports a closed channel when the returned sender is dropped.
fn paced(work: impl FnOnce(Receiver<()>) + Send + 'static) -> Sender<()> {
    let (alive, stop) = channel();
    thread::spawn(move || work(stop));
    alive
}

/// Waits for the next turn; returns false when the environment is dropped.
fn turn(stop: &Receiver<()>) -> bool {
    stop.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout)
}

fn settings(database: &MongoDb, faktory: &Faktory) -> TestEnv {
    let env = browser::env();
    let letters = env.path().join("dead-letters.db");
    let dsn = Postgres::shared().create_database(&format!("busy-{}", free_port()));
    assert_eq!(env.cli(&["provenance", "init", "--dsn", &dsn]).0, 0);
    env.set("provenance.transport=embedded")
        .set("provenance.writer.kind=postgres")
        .set(&format!("provenance.postgres.dsn={dsn}"))
        .set(&format!("provenance.dead_letters={}", letters.display()))
        .set(&format!("producer.mongodb.uri=mongodb://127.0.0.1:{}", database.port()))
        .set(&format!("producer.faktory.url={}", faktory.url()))
        .set("producer.page_size=1")
        .set("producer.chunk=200")
        .set("producer.poll_ms=500")
        .set("producer.high_water=30000")
        .set("producer.low_water=10000")
}

/// Writes files of three fetchers with different ages and sizes.
fn write_fetchers(env: &TestEnv) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    for (fetcher, hours, rows) in
        [("github", 1, 20_000), ("gitlab", 30, 3_000), ("pypi", 400, 700), ("github", 80, 9_000)]
    {
        let text: String =
            (0..rows).map(|row| format!("{fetcher}Packages.p{hours}-{row} 1.0 1.{row}\n")).collect();
        env.write(&format!("{fetcher}.{}.txt", now - hours * 3_600), text);
    }
}

/// Configuration of ingester and catalog, whose sections are lists.
fn config(env: &TestEnv, sources: &[TcpListener; 2], port: u16, redis: &Redis, ermrest: &Ermrest) -> String {
    let mut text = format!(
        "[[ingester]]\nname = \"beamline\"\nlisten = \"127.0.0.1:{port}\"\nredis_url = \"{}\"\nspill_dir = \"{}\"\n\
         egress_bytes_per_peer = 4194304\nspill_bytes = 1073741824\n",
        redis.url(),
        env.path().display(),
    );
    for (name, source) in STREAMS.iter().zip(sources) {
        let address = source.local_addr().expect("its address");
        text += &format!(
            "[[ingester.stream]]\nname = \"{name}\"\nsource = \"stins\"\nupstream_url = \"tcp://{address}\"\n"
        );
    }
    let missing = FULL_RULE.replace("\"work\"", "\"thumbnails\"").replace("\"Foo\"", "\"Missing\"");
    format!(
        "{text}[[catalog]]\nname = \"lab\"\nbase = \"{}\"\npoll_without_notices_secs = 0.25\namqp = \"\"\n{FULL_RULE}{HANDLER}{missing}{HANDLER}",
        ermrest.url()
    )
}

fn start_instance(env: &TestEnv, config: &str) -> Instance {
    let file = env.path().join("lists.toml");
    fs::write(&file, config).expect("write the configuration");
    let mut command = env.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    instance.await_service(env);
    instance
}

/// Two workers share the events, and each tenth goes to the slow one. The first event goes to all.
fn assignment(event: u64) -> Value {
    let workers = match event {
        0 => WORKERS.to_vec(),
        _ if event.is_multiple_of(10) => vec![WORKERS[2]],
        _ => vec![WORKERS[usize::from(event.is_multiple_of(2))]],
    };
    json!({ STREAMS[0]: workers, STREAMS[1]: workers })
}

/// Sends an endless series of frames to the ingester, which connects again if this thread was late to greet
/// it.
fn send_frames(listener: &TcpListener, stop: &Receiver<()>) {
    while turn(stop) {
        if let Ok(peer) = ZmtpPeer::accept(listener, "PUSH") {
            send_series(peer, stop);
        }
    }
}

/// Sends a header and frames until the peer closes or the environment is dropped.
fn send_series(mut peer: ZmtpPeer, stop: &Receiver<()>) {
    let header = br#"{"htype":"header","msg_number":0,"filename":""}"#;
    let mut taken = peer.send(&[header]).is_ok();
    let pixels = vec![7; FRAME];
    let mut frame = 0_u64;
    while taken && turn(stop) {
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[512,512],"type":"uint8","compression":"none","msg_number":{}}}"#,
            frame + 1
        );
        taken = peer.send(&[head.as_bytes(), &pixels]).is_ok();
        frame += 1;
    }
}

/// Pings, and receives events unless it is the slow worker.
fn take_events(mut peer: ZmtpPeer, name: &str, stop: &Receiver<()>) {
    // The version, 4, and the variant of a UUID.
    let mut uuid = [*name.as_bytes().last().expect("a name"); 16];
    (uuid[6], uuid[8]) = (0x40, 0x80);
    let mut is_open = peer.send(&[&uuid]).is_ok();
    let mut turns = 0_u32;
    while is_open && (name != WORKERS[2] || turn(stop)) {
        turns += 1;
        let is_due = turns.is_multiple_of(20);
        is_open = (!is_due || peer.send(&[&uuid]).is_ok()) && (name == WORKERS[2] || peer.receive().is_ok());
    }
}

/// Takes a job each turn; one of nine fails.
fn take_jobs(mut worker: Worker, stop: &Receiver<()>) {
    let mut reply = worker.ready();
    for job in 0_u32.. {
        let Reply::Job { attr_path, .. } = &reply else { return };
        if !turn(stop) {
            return;
        }
        let code = match job % 27 {
            9 => 1,
            18 => 124,
            _ => 0,
        };
        reply = worker.done(attr_path, code);
    }
}

/// Imports rows of its standard input into provenance.
fn import(env: &TestEnv) -> Child {
    let mut command = env.bare_command();
    command.args(["provenance", "import", "-"]).stdin(Stdio::piped());
    command.spawn().expect("start the import")
}

/// Writes an endless series of rows of all kinds, some of which are refused.
fn write_rows(mut import: ChildStdin, stop: &Receiver<()>) {
    let mut random = SeededRng::new(7);
    let mut rows = 0..u32::MAX;
    while turn(stop) {
        let lines: String = rows
            .by_ref()
            .take(ROWS_A_TURN)
            .map(|row| format!("{}\n", provenance_row(row, &mut random)))
            .collect();
        if import.write_all(lines.as_bytes()).is_err() {
            return;
        }
    }
}

/// Rows of another kind for each number. PostgreSQL refuses some locations, since their paths cannot be
/// compressed.
fn provenance_row(row: u32, random: &mut SeededRng) -> Value {
    let (content, directory, revision) = (sha1_of(0, row), sha1_of(1, row), sha1_of(2, row));
    let date = "2005-03-18T01:58:31Z";
    match row % 6 {
        0 => json!({"add": "content", "id": content, "date": date}),
        1 => json!({"add": "directory", "id": directory, "date": date}),
        2 => json!({"add": "revision", "id": revision, "date": date}),
        3 => json!({"add": "content_in_directory", "src": content, "dst": directory, "path": "a/b"}),
        4 if row % 500 == 4 => {
            let path: String = (0..2_704).map(|_| format!("{:02x}", random.below(256))).collect();
            json!({"add": "location", "path_hex": path})
        }
        4 => json!({"add": "origin", "url": format!("https://example.org/{row}")}),
        _ => json!({"add": "content_in_revision", "src": content, "dst": revision, "path": "a"}),
    }
}
