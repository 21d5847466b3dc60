//! Reference instance that is not attacked. It measures the slowness of the machine while cells run, because
//! time limits are set for an idle machine.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, TestEnv, try_http};

use crate::{cell, watch::Watch};

/// Median latency of its tree on a machine with two cores that runs only cells.
const USUAL: Duration = Duration::from_millis(25);
/// Worker round trips per second from which on others should make progress, too (normally about 100).
const WORKING: u64 = 5;

/// Script that ends the instance when its standard input closes; a static is never dropped.
const GUARD: &str = r#"cat >/dev/null; kill -9 "$1"; rm -rf "$2""#;

struct Reference {
    watch: Watch,
    _env: TestEnv,
    _instance: Instance,
    _guard: Child,
}

fn shared() -> &'static Reference {
    static SHARED: OnceLock<Reference> = OnceLock::new();
    SHARED.get_or_init(|| {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        // As many children as the largest cell.
        let sections =
            format!("[provenance]\n[provenance.sqlite]\npath = \"{}/provenance.db\"\n", env.path().display());
        let instance = cell::start(&env, &sections);
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard", &instance.pid().to_string()]).arg(env.path());
        // Ctrl-C must not reach it.
        let guard = guard.stdin(Stdio::piped()).process_group(0).spawn().expect("sh runs");
        let socket = env.admin_socket();
        let json = ["Accept: application/json"];
        let ask =
            move || try_http(&socket, "GET", "/v1/tree", &json, "").is_ok_and(|reply| reply.status == 200);
        let watch = Watch::start(&env, Box::new(ask));
        Reference { watch, _env: env, _instance: instance, _guard: guard }
    })
}

/// Starts the reference instance.
pub(crate) fn prepare() {
    shared();
}

/// Median latency of its tree from `begun` to `end`.
pub(crate) fn tree(begun: Instant, end: Instant) -> Duration {
    shared().watch.seen().median_tree(begun, end).unwrap_or_default()
}

/// Slowness of the machine from `begun` to `end`: 1 (normal) to 3.
pub(crate) fn slowness(begun: Instant, end: Instant) -> f64 {
    (tree(begun, end).as_secs_f64() / USUAL.as_secs_f64()).clamp(1.0, 3.0)
}

/// Returns true if its worker made progress from `begun` to `end`.
pub(crate) fn works(begun: Instant, end: Instant) -> bool {
    shared().watch.seen().round_trips(begun, end) >= WORKING
}
