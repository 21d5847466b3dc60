//! One cell of the matrix: an edge, a behaviour of its peer, and the limits that hold for all cells.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, TestEnv, Worker, eventually, raw_tcp, rounds, try_http};
use orchestrator_text::is_escaped;

use crate::{
    behaviour::Behaviour,
    client::Clients,
    edge::{Build, Edge, Plan, Side},
    measured::{Measured, UNANSWERED_MAX, Violation, check_limits},
    reference,
    switch::Switch,
    watch::{AskTree, Seen, Watch},
};

/// Time window in which log lines are counted.
const LINES_WINDOW: Duration = Duration::from_secs(10);
/// Configured upper bound of the reconnect delay.
const RETRY_MAX_MS: u64 = 1_000;
/// Limit of the time from the end of the attack to the next completed work: the longest delay with 20 %
/// jitter, and 1 s.
pub(crate) const HEALED_MAX: Duration = Duration::from_millis(RETRY_MAX_MS * 12 / 10 + 1_000);
/// Limit of the time of a stop while a client library still computes.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Part of the attack; the other subsystem must make progress in each.
const PART: Duration = Duration::from_secs(1);
/// Maximum length of a log line, bytes; each text of a peer is limited to 512.
const LINE_MAX: usize = 4_096;
/// Jobs in the queue.
const JOBS: u32 = 3_000;

/// Duration of an attack by default, in seconds.
const ATTACK_SECS: u64 = 2;

/// Slowest machine that the limits consider.
const SLOWNESS_MAX: u32 = 3;

/// Longest duration of the attack. One on logins is not extended: each attempt may occupy one of a limited
/// number of threads for an hour. A frozen peer attacks until all links show it.
fn attack_time(behaviour: Behaviour) -> Duration {
    if behaviour == Behaviour::FreezesAfterConnecting {
        return UNANSWERED_MAX * SLOWNESS_MAX;
    }
    let secs = match behaviour {
        Behaviour::MisusesLogin => ATTACK_SECS,
        _ => rounds("ORCHESTRATOR_HOSTILE_SECS", ATTACK_SECS),
    };
    Duration::from_secs(secs)
}

/// Runs one cell.
///
/// # Errors
/// If a limit is violated.
pub(crate) fn run(plan: Plan, build: Build) -> Result<Measured, Violation> {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let plan = Plan { directory: env.path().to_owned(), ..plan };
    let behaviour = plan.behaviour;
    let mut edge = build(&plan);
    let mut instance = start(&env, &edge.sections());
    eventually("work to come through the edge before the attack", || {
        edge.feed(&env);
        edge.done(&env) > 0
    });

    let watch = Watch::start(&env, ask_tree(&env, edge.side()));
    eventually("the worker to be answered", || {
        watch.seen().samples.last().is_some_and(|sample| sample.round_trips > 0)
    });
    reset_peak(&instance);
    let steady = instance.memory("VmRSS");
    let begun = Instant::now();
    let Attacked { connections, done: before, unanswered } = attack(&env, &mut *edge, behaviour);
    let (end, sane) = (Instant::now(), Instant::now());
    let unanswered = unanswered.map(|after| after.div_f64(reference::slowness(begun, end)));
    edge.peer_is_sane(&env);
    let mut healed = None;
    while healed.is_none() && sane.elapsed() < HEALED_MAX * 5 {
        edge.feed(&env);
        if edge.done(&env) > before {
            healed = Some(sane.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(instance.ended().is_none(), "the process ended:\n{}", tail(&env));
    let grown = instance.memory("VmHWM").saturating_sub(steady);
    let seen = watch.end();
    let crashed = crashed(&env);
    let measured = Measured {
        connections,
        grown,
        budget: edge.budget(),
        lines: seen.most_lines(begun, LINES_WINDOW),
        tree: seen.median_tree(begun, end).unwrap_or(Duration::MAX),
        no_tree: seen.trees.iter().filter(|(_, took)| took.is_none()).count(),
        jobs: worst_part(&seen, begun, end),
        worker_lost: seen.worker_lost,
        healed,
        unanswered,
        usual_tree: reference::tree(begun, end),
        slowness: reference::slowness(sane, Instant::now()),
        unprintable: unprintable(&env),
        crashed,
    };
    let unprintable = measured.unprintable.clone().unwrap_or_default();
    check_limits(&measured).map_err(|Violation { text, is_late }| {
        let text = format!("{text}\n  {measured}\n{unprintable}{}{}", links(&env), tail(&env));
        Violation { text, is_late }
    })?;
    edge.finish(&env);
    if behaviour == Behaviour::MisusesLogin {
        let began = Instant::now();
        assert!(instance.terminate().success(), "the stop failed:\n{}", tail(&env));
        let took = began.elapsed();
        assert!(took <= STOP_MAX.mul_f64(measured.slowness), "the stop took {took:?}:\n{}", tail(&env));
    }
    Ok(measured)
}

/// Paths of children that panicked.
fn crashed(env: &TestEnv) -> Vec<String> {
    let Some(tree) = env.snapshot() else { return Vec::new() };
    let nodes = tree.all().into_iter().filter(|node| node["last_exit"]["kind"] == "panicked");
    nodes.map(|node| format!("{}: {:.300}", node["path"], node["last_exit"]["reason"].to_string())).collect()
}

/// Smallest number of worker round trips in a part. Parts in which the reference worker made no progress are
/// skipped.
fn worst_part(seen: &Seen, begun: Instant, end: Instant) -> u64 {
    let parts = (end - begun).as_secs() / PART.as_secs();
    let parts = (0..parts).map(|part| (begun + PART * part as u32, begun + PART * (part as u32 + 1)));
    let counted = parts.filter(|(from, to)| reference::works(*from, *to));
    counted.map(|(from, to)| seen.round_trips(from, to)).min().unwrap_or(u64::MAX)
}

/// Starts an instance with a queue, both admin sockets and these configuration `sections`.
pub(crate) fn start(env: &TestEnv, sections: &str) -> Instance {
    env.write("work.1.txt", (0..JOBS).map(|job| format!("job{job} 1\n")).collect::<String>());
    let path = |path: &Path| path.display().to_string();
    let text = format!(
        "[queue]\ndatabase = {:?}\ninput_dir = {:?}\nsocket = {:?}\nsynchronous = \"normal\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\nprobe_listen = \"127.0.0.1:0\"\nunix_socket = {:?}\n\
         [links]\nretry_max_ms = {RETRY_MAX_MS}\n{}",
        path(&env.database_path()),
        path(&env.input_dir()),
        path(&env.socket()),
        path(&env.admin_socket()),
        sections,
    );
    let config = env.path().join("orchestrator.toml");
    fs::write(&config, text).expect("write the configuration");
    let mut command = env.bare_command();
    command.args(["run", "--config"]).arg(&config);
    let mut instance = Instance::spawn(command);
    eventually("the worker socket to be served", || {
        assert!(instance.ended().is_none(), "the process ended at its start:\n{}", tail(env));
        Worker::connect(&env.socket()).is_ok()
    });
    instance
}

/// Asks over the admin socket that is not under attack.
fn ask_tree(env: &TestEnv, side: &Side) -> AskTree {
    let attacked = if let Side::Clients(endpoint) = side { Some(endpoint(env)) } else { None };
    let socket = env.admin_socket();
    let is_attacked = matches!(attacked, Some(crate::client::Endpoint::Unix(path)) if path == socket);
    if is_attacked {
        let address = env.admin_tcp();
        let request = b"GET /v1/tree HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
        return Box::new(move || {
            raw_tcp(address, request).is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
        });
    }
    let json = ["Accept: application/json"];
    Box::new(move || try_http(&socket, "GET", "/v1/tree", &json, "").is_ok_and(|reply| reply.status == 200))
}

/// Resets the kernel's peak RSS of the process.
pub(crate) fn reset_peak(instance: &Instance) {
    fs::write(format!("/proc/{}/clear_refs", instance.pid()), "5").expect("the process is ours");
}

/// Result of an attack.
struct Attacked {
    /// Hostile connections.
    connections: u64,
    /// Completed work items at its end.
    done: u64,
    /// Time until all links showed a frozen peer; zero for other behaviours.
    unanswered: Option<Duration>,
}

/// Attacks for [`attack_time`], or until all links show a frozen peer.
fn attack(env: &TestEnv, edge: &mut dyn Edge, behaviour: Behaviour) -> Attacked {
    let (protocol, begun) = (edge.protocol(), Instant::now());
    let (end, freezes) = (begun + attack_time(behaviour), behaviour == Behaviour::FreezesAfterConnecting);
    let clients = match edge.side() {
        Side::Servers(switch, _) => {
            switch.turn_hostile(protocol, behaviour, end);
            None
        }
        Side::Clients(endpoint) => Some(Clients::attack(&endpoint(env), &protocol, behaviour, end)),
    };
    if freezes {
        edge.peer_is_frozen(env);
    }
    let mut unanswered = (!freezes).then_some(Duration::ZERO);
    let mut cut = (!freezes).then(|| begun + attack_time(behaviour) / 2);
    while Instant::now() < end && !(freezes && unanswered.is_some()) {
        // Cuts connections once, so that an edge with one long connection is attacked before and after the
        // handshake.
        if let (Some(_), Side::Servers(switch, _)) = (cut.take_if(|cut| *cut <= Instant::now()), edge.side())
        {
            switch.cut();
        }
        edge.feed(env);
        if let (true, Side::Servers(switch, _)) = (freezes, edge.side()) {
            unanswered = is_unanswered(env, switch).then(|| begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut connections = clients.map_or(0, Clients::join);
    // Read first: the edge may reconnect, and complete its only handshake, as soon as the server is back.
    let done = edge.done(env);
    if let Side::Servers(switch, real) = edge.side() {
        switch.turn_sane(*real);
        connections = switch.attacked();
    }
    Attacked { connections, done, unanswered }
}

/// Returns true if all links to the peer are unanswered, except those that are not needed and those of
/// readers, which get no query.
fn is_unanswered(env: &TestEnv, switch: &Switch) -> bool {
    let (address, tree) = (switch.address().to_string(), env.snapshot());
    let nodes = tree.iter().flat_map(|tree| tree.all());
    let links = nodes.filter(|node| node["id"] != "reader").map(|node| &node["link"]);
    let attacked = links.filter(|link| link["endpoint"].as_str().is_some_and(|at| at.contains(&address)));
    let states: Vec<_> = attacked.map(|link| &link["state"]).filter(|state| *state != "idle").collect();
    !states.is_empty() && states.iter().all(|state| *state == "unanswered")
}

/// First log line that is longer than [`LINE_MAX`] or has unescaped control characters.
fn unprintable(env: &TestEnv) -> Option<String> {
    let log = fs::read(env.log_path()).unwrap_or_default();
    let lines = log.split(|byte| *byte == b'\n');
    let is_bad = |line: &&[u8]| {
        line.len() > LINE_MAX || std::str::from_utf8(line).map_or(true, |text| text.chars().any(is_escaped))
    };
    lines.into_iter().find(is_bad).map(|line| format!("{:.300?}", String::from_utf8_lossy(line)))
}

/// State of each link.
fn links(env: &TestEnv) -> String {
    let Some(tree) = env.snapshot() else { return "    no tree\n".to_owned() };
    let links = tree.all().into_iter().filter(|node| node["link"].is_object());
    links.map(|node| format!("    {}: {:.600}\n", node["path"], node["link"].to_string())).collect()
}

/// Last lines of the log, shortened and escaped.
fn tail(env: &TestEnv) -> String {
    let log = fs::read(env.log_path()).unwrap_or_default();
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
