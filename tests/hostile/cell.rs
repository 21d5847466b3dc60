//! One cell: an edge, a behaviour of its peer, and the one assertion for all of them.

use std::{
    fmt, fs,
    path::Path,
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, Site, Worker, eventually, rounds, try_http, try_raw};

use crate::{
    client::Clients,
    edge::{Build, Edge, Plan, Side},
    watch::{AskTree, Look, Seen, Watch},
};

/// Growth of the RSS beyond the edge's documented budget that is still accepted, bytes.
const RSS_SLACK: u64 = 64 << 20;
/// Lines of log in any ten seconds.
const LINES_MAX: u64 = 200;
/// Window that the lines are counted in.
const LINES_WINDOW: Duration = Duration::from_secs(10);
/// Time in which `GET /v1/tree` answers. The median is compared: single answers of a process that shares two cores with several
/// other cells also measure the scheduler.
const TREE_MAX: Duration = Duration::from_millis(50);
/// The longest delay between two tries that every instance is configured with.
const RETRY_MAX_MS: u64 = 1_000;
/// Time from the moment that the sane peer listens until work has come through: the longest delay with its jitter of a fifth, and a
/// second.
const HEALED_MAX: Duration = Duration::from_millis(RETRY_MAX_MS * 12 / 10 + 1_000);
/// Parts of the attack in each of which the other subsystem makes progress.
const PARTS: u32 = 4;
/// Jobs in the queue.
const JOBS: u32 = 3_000;

/// How long the attack takes.
fn attack_time() -> Duration {
    Duration::from_secs(rounds("ORCHESTRATOR_HOSTILE_SECS", 2))
}

/// What came of a cell.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    connections: u64,
    grown: u64,
    budget: u64,
    lines: u64,
    tree: Duration,
    tree_max: Duration,
    no_tree: u64,
    least: u64,
    healed: Option<Duration>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, grown, budget, lines, tree, tree_max, no_tree, least, healed } = self;
        write!(
            f,
            "{connections} connections; RSS +{} of {} MiB; {lines} lines; tree {tree:?}, max {tree_max:?}, {no_tree} missing; \
             {least} jobs in the worst quarter; works again after {healed:?}",
            grown >> 20,
            (budget + RSS_SLACK) >> 20,
        )
    }
}

/// Runs a cell.
///
/// # Errors
/// Every promise that was broken, with the figures.
pub(crate) fn run(plan: Plan, build: Build) -> Result<Figures, String> {
    let site = Site::new(env!("CARGO_BIN_EXE_orchestrator"));
    let plan = Plan { directory: site.path().to_owned(), ..plan };
    let behaviour = plan.behaviour;
    let mut edge = build(&plan);
    let mut instance = start(&site, &*edge);
    eventually("work to come through the edge before the attack", || {
        edge.feed(&site);
        edge.done(&site) > 0
    });

    let watch = Watch::start(&site, ask_tree(&site, edge.side()));
    eventually("the worker to be answered", || worker_is_busy(&site));
    reset_peak(&instance);
    let steady = instance.memory("VmRSS");
    let (begun, end) = (Instant::now(), Instant::now() + attack_time());
    let connections = attack(&site, &mut *edge, behaviour, end);
    let sane = Instant::now();
    edge.peer_is_sane(&site);
    let before = edge.done(&site);
    let mut healed = None;
    while healed.is_none() && sane.elapsed() < HEALED_MAX * 5 {
        edge.feed(&site);
        if edge.done(&site) > before {
            healed = Some(sane.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let grown = instance.memory("VmHWM").saturating_sub(steady);
    let seen = watch.end();
    if instance.ended().is_some() {
        return Err(format!("the process ended:\n{}", tail(&site)));
    }
    let seen = seen.map_err(|error| format!("{error}:\n{}", tail(&site)))?;
    let figures = figures(&seen, begun, end, connections, grown, edge.budget(), healed);
    judge(&figures).map_err(|broken| format!("{broken}\n  {figures}\n{}", tail(&site)))?;
    edge.finish(&site);
    Ok(figures)
}

fn start(site: &Site, edge: &dyn Edge) -> Instance {
    site.write("work.1.txt", (0..JOBS).map(|job| format!("job{job} 1\n")).collect::<String>());
    let path = |path: &Path| path.display().to_string();
    let text = format!(
        "[queue]\ndatabase = {:?}\ninput_dir = {:?}\nsocket = {:?}\nsynchronous = \"normal\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\nunix_socket = {:?}\n\
         [links]\nretry_max_ms = {RETRY_MAX_MS}\n{}",
        path(&site.database_path()),
        path(&site.input_dir()),
        path(&site.socket()),
        path(&site.admin_socket()),
        edge.sections(),
    );
    let config = site.path().join("orchestrator.toml");
    fs::write(&config, text).expect("write the configuration");
    let mut command = site.bare_command();
    command.args(["run", "--config"]).arg(&config);
    let mut instance = Instance::spawn(command);
    eventually("the worker socket to be served", || {
        assert!(instance.ended().is_none(), "the process ended at its start:\n{}", tail(site));
        Worker::connect(&site.socket()).is_ok()
    });
    instance
}

/// The tree is asked for where nobody attacks.
fn ask_tree(site: &Site, side: &Side) -> AskTree {
    let attacked = if let Side::Clients(endpoint) = side { Some(endpoint(site)) } else { None };
    let socket = site.admin_socket();
    let is_attacked = matches!(attacked, Some(crate::client::Endpoint::Unix(path)) if path == socket);
    if is_attacked {
        let address = site.admin_tcp();
        let request = b"GET /v1/tree HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
        return Box::new(move || {
            try_raw(address, request).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
        });
    }
    let json = ["Accept: application/json"];
    Box::new(move || try_http(&socket, "GET", "/v1/tree", &json, "").is_ok_and(|reply| reply.status == 200))
}

fn worker_is_busy(site: &Site) -> bool {
    site.figure("queue/worker_socket", "connections") > 0
}

/// Has the kernel measure the peak of the RSS from now on.
fn reset_peak(instance: &Instance) {
    fs::write(format!("/proc/{}/clear_refs", instance.pid()), "5").expect("the process is ours");
}

/// Attacks until `end`; the number of hostile connections.
fn attack(site: &Site, edge: &mut dyn Edge, behaviour: crate::behaviour::Behaviour, end: Instant) -> u64 {
    let protocol = edge.protocol();
    let clients = match edge.side() {
        Side::Servers(switch, _) => {
            switch.turn_hostile(protocol, behaviour, end);
            None
        }
        Side::Clients(endpoint) => Some(Clients::attack(&endpoint(site), &protocol, behaviour, end)),
    };
    let mut cut = Some(Instant::now() + attack_time() / 2);
    while Instant::now() < end {
        // Else an edge that stays on its first connection would meet its peer's behaviour in one of the two stages only.
        if let (Some(_), Side::Servers(switch, _)) = (cut.take_if(|cut| *cut <= Instant::now()), edge.side())
        {
            switch.cut();
        }
        edge.feed(site);
        std::thread::sleep(Duration::from_millis(20));
    }
    match (clients, edge.side()) {
        (Some(clients), _) => clients.join(),
        (None, Side::Servers(switch, real)) => {
            switch.turn_sane(*real);
            switch.attacked()
        }
        (None, Side::Clients(_)) => 0,
    }
}

fn figures(
    seen: &Seen,
    begun: Instant,
    end: Instant,
    connections: u64,
    grown: u64,
    budget: u64,
    healed: Option<Duration>,
) -> Figures {
    let looks: Vec<Look> = seen.looks.iter().copied().filter(|look| look.at >= begun).collect();
    let lines = looks.iter().map(|first| {
        let inside = looks.iter().take_while(|look| look.at <= first.at + LINES_WINDOW);
        inside.last().map_or(0, |last| last.lines - first.lines)
    });
    let round_trips = |until: Instant| {
        looks.iter().take_while(|look| look.at <= until).last().map_or(0, |look| look.round_trips)
    };
    let part = (end - begun) / PARTS;
    let jobs = (0..PARTS).map(|at| round_trips(begun + part * (at + 1)) - round_trips(begun + part * at));
    let mut trees = seen.trees.clone();
    trees.sort();
    Figures {
        connections,
        grown,
        budget,
        lines: lines.max().unwrap_or_default(),
        tree: trees.get(trees.len() / 2).copied().unwrap_or(Duration::MAX),
        tree_max: trees.last().copied().unwrap_or(Duration::MAX),
        no_tree: seen.no_tree,
        least: jobs.min().unwrap_or_default(),
        healed,
    }
}

/// The one assertion.
fn judge(figures: &Figures) -> Result<(), String> {
    let mut broken = Vec::new();
    let mut promise = |kept: bool, text: &str| {
        if !kept {
            broken.push(text.to_owned());
        }
    };
    promise(figures.connections > 0, "nobody was attacked");
    promise(figures.grown <= figures.budget + RSS_SLACK, "the RSS is beyond its budget");
    promise(figures.lines <= LINES_MAX, "the log has more than 200 lines in 10 s");
    promise(figures.tree <= TREE_MAX, "the tree takes more than 50 ms");
    promise(figures.no_tree == 0, "the tree was not answered");
    promise(figures.least > 0, "the other subsystem made no progress in a quarter of the attack");
    promise(figures.healed.is_some_and(|after| after <= HEALED_MAX), "the edge does not work again in time");
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ")) }
}

/// The end of the log, in lines and bytes that a terminal takes.
fn tail(site: &Site) -> String {
    let log = fs::read(site.log_path()).unwrap_or_default();
    let from = log.len().saturating_sub(4_000);
    let text = String::from_utf8_lossy(&log[from..]).into_owned();
    text.lines()
        .rev()
        .take(12)
        .map(|line| format!("    {:.300?}\n", line))
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect()
}
