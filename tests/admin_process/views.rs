//! The operator commands `top`, `tail`, `graph` and shell completions.

mod foreign;

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use orchestrator_harness::{Instance, TestEnv, http};
use serde_json::Value;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

fn rows(env: &TestEnv, arguments: &[&str]) -> Vec<Value> {
    let all = [&["top", "--once", "--json", "--interval", "0.5"], arguments].concat();
    let (code, out, err) = env.cli(&all);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str::<Value>(&out).expect("JSON").as_array().expect("rows").clone()
}

#[test]
fn top_lists_the_busiest_child_first() {
    let env = env();
    let _instance = env.start();
    let done = AtomicBool::new(false);
    let busy = thread::scope(|scope| {
        scope.spawn(|| {
            let mut worker = env.worker();
            while !done.load(Relaxed) {
                worker.ready();
            }
        });
        let busy = rows(&env, &["--sort", "rate"]);
        done.store(true, Relaxed);
        busy
    });
    // Requests wait in the store's inbox, so it is the busiest child.
    assert_eq!(busy[0]["path"], "orchestrator/queue/queue_store", "{busy:?}");
    assert!(busy[0]["rate"].as_f64() > Some(10.0), "{}", busy[0]);
    let all = rows(&env, &[]);
    assert_eq!(all.len(), 10, "expected one row per child: {all:?}");
    assert_eq!(all[0]["path"], "orchestrator");
    let linked = rows(&env, &["queue", "--filter", "sqlite up"]);
    assert_eq!(linked.len(), 1, "{linked:?}");
    let (code, _, err) = env.cli(&["top", "no/such", "--once"]);
    assert_eq!(code, 4, "{err}");
    let (code, _, err) = env.cli(&["top", "--interval", "0"]);
    assert_eq!(code, 2, "{err}");
}

/// It reconnects after a restart of the process and ends with its reader.
#[test]
fn top_survives_a_restart_of_the_process() {
    let env = env();
    let instance = env.start();
    let mut top = std::process::Command::new(env.binary())
        .args(["top", "--interval", "0.1", "--socket"])
        .arg(env.admin_socket())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start top");
    let mut lines = BufReader::new(top.stdout.take().expect("piped")).lines();
    let mut await_line = |wanted: &str| {
        let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted));
        assert!(found.is_some(), "top ended before it said {wanted:?}");
    };
    await_line("queue/fetcher_watcher ");
    instance.kill_nine();
    await_line("cannot reach");
    let again: Instance = env.start();
    await_line("queue/fetcher_watcher ");
    drop(lines);
    let ended =
        orchestrator_harness::wait_for("top to end with its reader", || top.try_wait().expect("ours"));
    assert_eq!(ended.code(), Some(0));
    assert!(again.terminate().success());
}

/// It reconnects after a restart of the process, which resets sequence numbers, and ends with its reader.
#[test]
fn tail_survives_a_restart_of_the_process() {
    let env = env();
    let instance = env.start();
    let mut tail = std::process::Command::new(env.binary())
        .args(["tail", "-n", "0", "--socket"])
        .arg(env.admin_socket())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start tail");
    let mut lines = BufReader::new(tail.stdout.take().expect("piped")).lines();
    let mut await_line = |wanted: &str| {
        let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted));
        assert!(found.is_some(), "tail ended before it said {wanted:?}");
    };
    let reader = thread::spawn({
        let socket = env.admin_socket();
        move || {
            // Events before the subscription of tail are not shown.
            for n in 0.. {
                let path =
                    format!("/v1/actors/queue/inotify/{}", if n % 2 == 0 { "pause" } else { "resume" });
                if orchestrator_harness::try_http(&socket, "POST", &path, &[], "{}").is_err() {
                    break;
                }
            }
        }
    });
    await_line("orchestrator/queue/inotify  paused");
    instance.kill_nine();
    reader.join().expect("it ends with the process");
    await_line("connection lost");
    let again: Instance = env.start();
    await_line("orchestrator/queue/fetcher_watcher  started  incarnation=1");
    drop(lines);
    let reply = http(&env.admin_socket(), "POST", "/v1/actors/queue/inotify/pause", &[], "{}");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let ended =
        orchestrator_harness::wait_for("tail to end with its reader", || tail.try_wait().expect("ours"));
    assert_eq!(ended.code(), Some(0));
    assert!(again.terminate().success());
}

#[test]
fn graph_has_a_node_for_every_child_and_the_arrows_that_the_children_declare() {
    let env = env();
    let _instance = env.start();
    let (code, out, err) = env.cli(&["graph"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("digraph") && out.trim_end().ends_with('}'), "{out}");
    assert_eq!(out.matches("[label=").count(), 10, "{out}");
    let (sends, edges): (Vec<_>, Vec<_>) = out
        .lines()
        .filter(|line| line.contains(" -> "))
        .map(|line| line.trim().replace(['"', ';'], "").replace("orchestrator/queue/", ""))
        .partition(|line| line.contains("style=dashed"));
    assert_eq!(edges.len(), 9, "{out}");
    let sends: Vec<_> = sends.iter().map(|line| line.split(" [").next().expect("an arrow")).collect();
    let declared = [
        "queue_console -> queue_store",
        "queue_console -> housekeeper",
        "queue_store -> reader",
        "queue_store -> housekeeper",
        "worker_socket -> queue_store",
        "reader -> queue_store",
        "fetcher_watcher -> reader",
        "inotify -> fetcher_watcher",
    ];
    assert_eq!(sends, declared, "{out}");
    assert!(out.contains("\"orchestrator/queue\" -> \"orchestrator/queue/queue_store\";"), "{out}");
    let (_, part, _) = env.cli(&["graph", "queue/queue_store"]);
    assert_eq!(part.matches("[label=").count(), 1, "{part}");
}

#[test]
fn each_shell_has_a_completion_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, err) = env().cli(&["completions", shell]);
        assert_eq!(code, 0, "{shell}: {err}");
        assert!(out.contains("ORCHESTRATOR_COMPLETE"), "{shell}: {out}");
    }
    assert_eq!(env().cli(&["completions", "cmd.exe"]).0, 2);
}

/// Subsystems that an operator paused or that wait for a peer, in the text of all views. Exit codes and
/// readiness stay.
#[test]
fn a_paused_or_blocked_subsystem_is_not_shown_as_running() {
    // A broker that nobody serves.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    let env = env()
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url=amqp://{free}"))
        .set("provenance.sqlite.path=provenance.db");
    let _instance = env.spawn();
    let state = |text: &str, child: &str| {
        let mut words =
            text.lines().map(|line| line.trim_start_matches(['│', '├', '└', '─', ' ']).split_whitespace());
        words.find_map(|mut words| (words.next() == Some(child)).then(|| words.next().map(str::to_owned)))
    };
    let shown = |arguments: &[&str], child: &str| {
        let (code, out, err) = env.cli(arguments);
        assert_eq!(code, 0, "{err}");
        state(&out, child).flatten().unwrap_or_default()
    };
    let top = ["top", "--once", "--interval", "0.1"];
    orchestrator_harness::eventually("no broker", || {
        env.cli(&["tree"]).0 == 0 && shown(&["tree"], "provenance") == "blocked"
    });
    assert_eq!(shown(&top, "provenance"), "blocked");
    // An empty input is no trouble.
    assert!(env.why("queue").contains("queue/reader: no fetcher file in"), "{}", env.why("queue"));
    assert_eq!(shown(&["tree"], "queue"), "running");
    assert_eq!(shown(&["tree"], "reader"), "running");
    assert_eq!(shown(&top, "queue"), "running");

    assert_eq!(env.cli(&["queue", "pause", "--until", "1d", "--reason", "moved"]).0, 0);
    for (arguments, child) in [(&["tree"][..], "queue"), (&["tree"], "queue_console"), (&top, "queue")] {
        assert_eq!(shown(arguments, child), "paused", "{arguments:?}");
    }
    let (code, text, _) = env.cli(&["health"]);
    assert_eq!(code, 1, "without the broker: {text}");
    let paused = "paused: orchestrator/queue/queue_console: an operator paused hand-outs until 2";
    assert!(text.contains(&format!("\n{paused}")), "{text}");
    assert_eq!(text.matches("provenance/amqp").count(), 1, "{text}");
    let ready = http(&env.admin_socket(), "GET", "/readyz", &[], "").body;
    assert!(!ready.contains("paused"), "{ready}");
    assert_eq!(env.cli(&["queue", "resume"]).0, 0);
    assert_eq!(shown(&["tree"], "queue"), "running");
    assert!(!env.cli(&["health"]).1.contains("paused"));
}
