//! Rows claimed and completed by agents on one catalog, beside as many agents of the original, on the same
//! server and broker.
//!
//! The server is the tests' stand-in with `--write-ms 20`: a write takes so long, and one that meets another
//! is aborted, as on a real one. Times are the server's own: when a row was made, and when its claim was
//! written.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use orchestrator_harness::{AgentStep, CatalogEnv, DerivaAgent, Ermrest, FULL_RULE, Rabbit, wait_for};
use serde_json::{Value, json};

use crate::{calibration::median, ingester::threads_cpu_s};

/// Latency of the server.
const SLOW: [&str; 2] = ["--write-ms", "20"];
/// Observation time of an idle agent, and its poll interval.
const IDLE: Duration = Duration::from_secs(20);
/// Rows that are claimed one by one, after their notices.
const SINGLE: u32 = 40;

/// Options of the catalog bench.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rows of each round
    #[arg(long, default_value_t = 400)]
    rows: u32,
    /// Agents, each a process
    #[arg(long, default_value_t = 4)]
    agents: usize,
    /// Rows that an agent of the original claims at once, as in its documentation
    #[arg(long, default_value_t = 5)]
    limit: u32,
    /// Rounds of ours, and of the original, in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Measure only the claims of all agents after notices
    #[arg(long)]
    claims: bool,
}

pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    // Each agent runs in a directory of its own.
    let binary = &std::fs::canonicalize(binary).context("find the binary: build it with --profile dist")?;
    let broker = Rabbit::shared();
    if options.claims {
        let ours = competing(binary, broker, options.agents);
        return Ok(json!({ "bench": "catalog", "agents": options.agents, "competing": ours }));
    }
    let (mut ours, mut theirs, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory = 0;
    for _ in 0..options.rounds {
        let (rate, resident) = original(broker, options);
        memory = memory.max(resident);
        let our = rate_of_ours(binary, broker, options);
        times.push(our / rate);
        ours.push(our);
        theirs.push(rate);
    }
    let (idle, resident) = idle(binary, broker)?;
    let rounded = |figure: f64| (figure * 100.0).round() / 100.0;
    let mib = |bytes: u64| rounded(bytes as f64 / f64::from(1 << 20));
    Ok(json!({
        "bench": "catalog", "rows": options.rows, "agents": options.agents,
        "rows_per_s": rounded(median(ours)), "original_rows_per_s": rounded(median(theirs)),
        "times_the_original": rounded(median(times)),
        "claim_p50_ms": { "coalesce_100": claims(binary, broker, 100), "coalesce_0": claims(binary, broker, 0),
            "original": claims_of_the_original(broker) },
        "competing": competing(binary, broker, options.agents),
        "idle": idle, "resident_mib": mib(resident), "original_resident_mib": mib(memory),
    }))
}

fn server(broker: &Rabbit) -> Ermrest {
    Ermrest::start(&[&SLOW[..], &["--amqp", &broker.url()]].concat())
}

fn listening(broker: &Rabbit, agents: usize) {
    let queues =
        || broker.queues("/", "consumers").iter().filter(|(name, _)| name.starts_with("amq.gen")).count();
    wait_for("all agents to listen", || (queues() == agents).then_some(()));
}

/// Rows a second from their insertion to the completion of all.
pub(crate) fn rate(server: &Ermrest, rows: u32) -> f64 {
    let begun = Instant::now();
    server.insert_foo(rows, "actionable");
    wait_for("all rows to be complete", || {
        sleep(Duration::from_millis(10));
        (server.count("Foo", "complete") == u64::from(rows)).then_some(())
    });
    f64::from(rows) / begun.elapsed().as_secs_f64()
}

fn original(broker: &Rabbit, options: &Options) -> (f64, u64) {
    let server = server(broker);
    let start = |number| DerivaAgent::start(&server.url(), broker, options.limit, &format!("agent{number}"));
    let agents: Vec<_> = (0..options.agents).map(start).collect();
    listening(broker, agents.len());
    let rate = rate(&server, options.rows);
    let resident = agents.iter().map(DerivaAgent::resident_bytes).max().unwrap_or_default();
    drop(agents);
    listening(broker, 0);
    (rate, resident)
}

fn rate_of_ours(binary: &Path, broker: &Rabbit, options: &Options) -> f64 {
    let server = server(broker);
    let env = |_| CatalogEnv::new(binary, &server).notices(&broker.url()).rule(FULL_RULE);
    let sites: Vec<_> = (0..options.agents).map(env).collect();
    let instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    listening(broker, instances.len());
    let rate = rate(&server, options.rows);
    drop(instances);
    listening(broker, 0);
    rate
}

/// A rule that claims, and does nothing more: a row was written last when it was claimed.
const CLAIM_ONLY: &str = r#"
[[catalog.rule]]
name = "claim"
table = "Foo"
filter = "state=actionable"
claim.set = { state = "claimed" }
"#;

/// From the making of a row to its claim, the middle of many, milliseconds.
fn claims(binary: &Path, broker: &Rabbit, coalesce_ms: u32) -> f64 {
    let server = server(broker);
    let env = CatalogEnv::new(binary, &server)
        .notices(&broker.url())
        .key(&format!("coalesce_ms = {coalesce_ms}"))
        .rule(CLAIM_ONLY);
    let _instance = env.start();
    listening(broker, 1);
    one_by_one(&server, "claimed");
    until_claimed(&server)
}

/// Median time from the making of a row to its claim, milliseconds.
fn until_claimed(server: &Ermrest) -> f64 {
    let times =
        server.rows("Foo").iter().map(|row| 1e3 * (seconds(&row["RMT"]) - seconds(&row["RCT"]))).collect();
    (median(times) * 10.0).round() / 10.0
}

/// Claims of rows that come one by one, by agents that all get each notice.
fn competing(binary: &Path, broker: &Rabbit, agents: usize) -> Value {
    let server = server(broker);
    let env = |_| CatalogEnv::new(binary, &server).notices(&broker.url()).rule(CLAIM_ONLY);
    let sites: Vec<_> = (0..agents).map(env).collect();
    let instances: Vec<_> = sites.iter().map(CatalogEnv::start).collect();
    listening(broker, instances.len());
    let requests = || -> u64 {
        let log = server.log();
        let statuses = log["statuses"].as_object().expect("counts by status");
        let of_agents = |status: &&String| status.starts_with("GET") || status.starts_with("PUT");
        statuses.keys().filter(of_agents).filter_map(|status| statuses[status].as_u64()).sum()
    };
    let before = requests();
    one_by_one(&server, "claimed");
    // The last row's notices have been handled, too.
    sleep(Duration::from_secs(1));
    let per_row = (requests() - before) as f64 / f64::from(SINGLE);
    drop(instances);
    listening(broker, 0);
    json!({ "claim_p50_ms": until_claimed(&server), "requests_per_row": (per_row * 10.0).round() / 10.0 })
}

fn claims_of_the_original(broker: &Rabbit) -> f64 {
    listening(broker, 0);
    let server = server(broker);
    let mut agent = DerivaAgent::start(&server.url(), broker, 5, "agent");
    listening(broker, 1);
    one_by_one(&server, "complete");
    let rows = server.rows("Foo");
    let said = agent.events().into_iter().filter(|done| done.step == AgentStep::Claimed);
    let times = said.filter_map(|done| {
        let row = rows.iter().find(|row| row["id"] == done.id)?;
        Some(1e3 * (done.at_secs - seconds(&row["RCT"])))
    });
    (median(times.collect()) * 10.0).round() / 10.0
}

/// Makes rows, each after the one before has the state `state` and all is quiet again.
fn one_by_one(server: &Ermrest, state: &str) {
    for id in 1..=SINGLE {
        // No rhythm of anybody's.
        sleep(Duration::from_millis(300 + u64::from(id) * 7 % 50));
        server.insert("Foo", &json!([{ "id": id, "state": "actionable" }]), "");
        wait_for("the row", || {
            sleep(Duration::from_millis(5));
            server.rows("Foo").iter().all(|row| row["state"] == state).then_some(())
        });
    }
}

/// A point in time as the server writes it, seconds since some day.
fn seconds(at: &Value) -> f64 {
    let at: jiff::Timestamp = at.as_str().and_then(|text| text.parse().ok()).expect("a time");
    at.as_microsecond() as f64 / 1e6
}

/// Cost of an agent that polls every second and finds nothing.
fn idle(binary: &Path, broker: &Rabbit) -> Result<(Value, u64)> {
    let server = server(broker);
    let env = CatalogEnv::new(binary, &server).notices(&broker.url()).key("poll_secs = 1.0").rule(FULL_RULE);
    let instance = env.start();
    listening(broker, 1);
    sleep(Duration::from_secs(3));
    let asked = || (server.response_count("GET", 304), server.response_count("GET", 200));
    let (before, cpu, begun) = (asked(), threads_cpu_s(instance.pid())?, Instant::now());
    sleep(IDLE);
    let (after, used) = (asked(), threads_cpu_s(instance.pid())? - cpu);
    let percent = used / begun.elapsed().as_secs_f64() * 100.0;
    let figures = json!({
        "polls": IDLE.as_secs(), "answers_304": after.0 - before.0, "answers_200": after.1 - before.1,
        "cpu_percent": (percent * 1e3).round() / 1e3,
    });
    Ok((figures, instance.memory("VmRSS")))
}
