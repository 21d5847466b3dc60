//! An instance that nobody attacks, beside all cells: it tells how slow the machine is while a cell runs. Limits of time were set for
//! a machine that has time; a test run shares its processors with other cells and with whatever else runs there.

use std::{
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, TestEnv, try_http};

use crate::{cell, watch::Watch};

/// Time in which half of its trees are there on a machine of two cores that runs some cells and nothing else.
const USUAL: Duration = Duration::from_millis(25);
/// Round trips of its worker, of about a hundred in a second, from which on others can be expected to have some, too.
const WORKING: u64 = 5;

/// Ends the instance when standard input ends: a static is never dropped, but its pipe is closed with the process.
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
        // With as many children as the largest cell has.
        let sections =
            format!("[provenance]\n[provenance.sqlite]\npath = \"{}/provenance.db\"\n", env.path().display());
        let instance = cell::start(&env, &sections);
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard", &instance.pid().to_string()]).arg(env.path());
        // An interrupt at the terminal is not for it.
        let guard = guard.stdin(Stdio::piped()).process_group(0).spawn().expect("sh runs");
        let socket = env.admin_socket();
        let json = ["Accept: application/json"];
        let ask =
            move || try_http(&socket, "GET", "/v1/tree", &json, "").is_ok_and(|reply| reply.status == 200);
        let watch = Watch::start(&env, Box::new(ask));
        Reference { watch, _env: env, _instance: instance, _guard: guard }
    })
}

/// Starts it.
pub(crate) fn prepare() {
    shared();
}

/// Half of its trees from `begun` to `end` took no longer than this.
pub(crate) fn tree(begun: Instant, end: Instant) -> Duration {
    shared().watch.seen().median_tree(begun, end).unwrap_or_default()
}

/// How many times slower than usual the machine was from `begun` to `end`, 1 to 3.
pub(crate) fn slowness(begun: Instant, end: Instant) -> f64 {
    (tree(begun, end).as_secs_f64() / USUAL.as_secs_f64()).clamp(1.0, 3.0)
}

/// Did its worker make progress from `begun` to `end`?
pub(crate) fn works(begun: Instant, end: Instant) -> bool {
    shared().watch.seen().round_trips(begun, end) >= WORKING
}
