//! Process 1 of a container: no zombies stay, signals and exit codes pass through.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use orchestrator_harness::{Instance, Reply, TestEnv, eventually, wait_for};

/// Leaves a process behind that ends once the file `go` exists, and notes it. The process has a session of
/// its own before the hook ends, since the program kills the hook's process group.
const HOOK: &str = r#"#!/bin/sh
cat > /dev/null
cd "${0%/*}"
setsid sh -c "echo >> left; touch left.$$; while [ ! -e go ]; do sleep 0.05; done" > /dev/null 2>&1 < /dev/null &
while [ ! -e left.$$ ]; do sleep 0.01; done
"#;

/// Process id and state of each child of `parent`.
fn children(parent: &str) -> Vec<(String, String)> {
    let output = Command::new("ps").args(["-o", "pid=,stat=", "--ppid", parent]).output().expect("ps(1)");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let pair = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        Some((words.next()?, words.next()?))
    };
    text.lines().filter_map(pair).collect()
}

#[test]
fn process_one_reaps_what_programs_leave_behind_and_passes_signals_on() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let hook = env.path().join("hook.sh");
    fs::write(&hook, HOOK).expect("write the hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("make it executable");
    let config = format!("[[hook]]\nname = \"h\"\non = \"queue.failed\"\nargv = [\"{}\"]\n", hook.display());
    fs::write(env.path().join("c.toml"), config).expect("write the configuration");
    let run = env.command();
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    unshare.arg(run.get_program()).args(run.get_args()).args(["--config", "c.toml"]);
    unshare.current_dir(env.path()).env("ORCHESTRATOR_SOCKET", env.admin_socket());
    let log = fs::File::create(env.log_path()).expect("a log");
    unshare.stdout(log.try_clone().expect("a second handle")).stderr(log);
    let mut instance = Instance::spawn(unshare);
    instance.await_service(&env);
    let mut worker = env.worker();
    let left = || fs::read_to_string(env.path().join("left")).unwrap_or_default().lines().count();
    // Hooks hear of the jobs that fail after they have found the queue.
    let (mut run, mut reply) = (0, worker.ready());
    eventually("processes to be left", || {
        if reply == Reply::NoJobs {
            run += 1;
            env.write(
                &format!("f.{run}.txt"),
                (0..20).map(|i| format!("p{run}x{i} 1\n")).collect::<String>(),
            );
            reply = wait_for("a job", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
        }
        reply = worker.done(reply.attr_path(), 1);
        left() >= 5
    });
    let one = wait_for("process 1", || children(&instance.pid().to_string()).pop()).0;
    eventually("process 1 to be their parent", || children(&one).len() > 5);
    fs::write(env.path().join("go"), "").expect("end them");
    eventually("only the instance to stay", || children(&one).len() == 1);
    // unshare(1) ignores the signal itself; docker sends it to process 1.
    let kill = Command::new("kill").args(["-s", "TERM", &one]).status().expect("kill(1)");
    assert!(kill.success());
    assert_eq!(instance.wait().code(), Some(0), "{}", env.log());
    assert!(env.log().contains("draining"), "{}", env.log());
}
