//! Runs the built tests as `tests/plan.toml` says. `tests/run` builds them and calls this program; it is an
//! example, since `cargo test --no-run` builds examples with the tests.
//!
//! ```text
//! run_plan MESSAGES [--full] [JOB..]    MESSAGES: output of `cargo test --no-run --message-format json`
//! ```
//!
//! Output of each program goes to `target/test-logs/GROUP.PROGRAM` and is printed when it has ended. All that
//! failed is repeated at the end; the exit code is then 1.

#![allow(clippy::print_stdout)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::Deserialize;
use serde_json::Value;

const PLAN: &str = "tests/plan.toml";
const LOGS: &str = "target/test-logs";
/// Lines of a failed test that are repeated at the end, and columns of each.
const REPEATED_MAX: (usize, usize) = (60, 400);

/// `tests/plan.toml`, which explains the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    jobs: BTreeSet<String>,
    full_jobs: BTreeSet<String>,
    full_env: BTreeMap<String, String>,
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    job: String,
    stage: u8,
    programs: Vec<String>,
    then: Option<String>,
    #[serde(default)]
    only: Vec<String>,
    #[serde(default)]
    skip: Vec<String>,
    #[serde(default)]
    skip_unless_full: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "one")]
    side_by_side: usize,
    threads: Option<usize>,
    #[serde(default = "one")]
    tries: usize,
    #[serde(default)]
    shows_output: bool,
    secs: u64,
}

fn one() -> usize {
    1
}

/// Test program with the directory of its package, in which cargo would start it.
struct Program {
    name: String,
    is_unit: bool,
    file: PathBuf,
    directory: PathBuf,
}

struct Run {
    start: Instant,
    programs: Vec<Program>,
    is_full: bool,
    env: BTreeMap<String, String>,
    /// Logs of what failed. Locked while a log is printed, so that only one is at a time.
    failed: Mutex<Vec<PathBuf>>,
}

impl Run {
    fn group(&self, group: &Group) {
        let of_name = |name: &String| {
            let is_meant = |one: &&Program| one.name == *name || name == "unit" && one.is_unit;
            let meant: Vec<_> = self.programs.iter().filter(is_meant).collect();
            assert!(!meant.is_empty(), "{PLAN} names a program that was not built: {name}");
            meant
        };
        let programs: Vec<_> = group.programs.iter().flat_map(of_name).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..group.side_by_side {
                scope.spawn(|| {
                    while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let log = group.log(&program.name);
                        self.report(self.program(group, program, &log), log);
                    }
                });
            }
        });
        if let Some(command) = &group.then {
            let log = group.log("then");
            self.report(self.ends_well(group, &mut Command::new(command), &log), log);
        }
    }

    /// Prints the log of a program or command that has ended.
    fn report(&self, is_good: bool, log: PathBuf) {
        let mut failed = self.failed.lock().expect("no thread has panicked");
        println!("\n== {} (until {} s)", log.display(), self.start.elapsed().as_secs());
        io::stdout().write_all(printed(&log).as_bytes()).expect("write to standard output");
        failed.extend((!is_good).then_some(log));
    }

    /// Runs a program and returns true if nothing has failed in the end.
    fn program(&self, group: &Group, program: &Program, log: &Path) -> bool {
        let start = |arguments: &[String]| {
            let mut command = Command::new(&program.file);
            self.ends_well(group, command.args(arguments).current_dir(&program.directory), log)
        };
        let mut is_good = start(&self.arguments(group));
        for _ in 1..group.tries {
            let failed = failed_tests(&printed(log));
            if is_good || failed.is_empty() {
                break;
            }
            let alone = ["--exact".to_owned(), "--test-threads=1".to_owned()];
            is_good = start(&alone.into_iter().chain(failed).collect::<Vec<_>>());
        }
        is_good
    }

    /// Arguments for each test program of a group.
    fn arguments(&self, group: &Group) -> Vec<String> {
        let skipped_now = if self.is_full { &[][..] } else { &group.skip_unless_full };
        let skipped =
            group.skip.iter().chain(skipped_now).flat_map(|name| ["--skip".to_owned(), name.clone()]);
        let mut all: Vec<String> = group.only.iter().cloned().chain(skipped).collect();
        let usual = || env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        let threads = group.threads.or_else(usual).unwrap_or_else(|| processors() + 1);
        all.push(format!("--test-threads={threads}"));
        all.extend(group.shows_output.then(|| "--nocapture".to_owned()));
        all
    }

    /// Appends the output of a process to a log. One that takes too long is killed.
    fn ends_well(&self, group: &Group, command: &mut Command, log: &Path) -> bool {
        let mut log = File::options().create(true).append(true).open(log).expect("open a log");
        writeln!(log, "     Running {command:?}").expect("write to a log");
        if !group.shows_output {
            let output = || log.try_clone().expect("duplicate a descriptor");
            command.stdout(output()).stderr(output());
        }
        let mut process =
            command.envs(&self.env).envs(&group.env).stdin(Stdio::null()).spawn().expect("start a program");
        let descriptor = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()).expect("a process");
        let limit = Duration::from_secs(group.secs).try_into().expect("seconds");
        let ended = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&limit)).expect("poll");
        if ended == 0 {
            process.kill().expect("kill a program");
            writeln!(log, "error: it did not end within {} s", group.secs).expect("write to a log");
        }
        process.wait().expect("wait for a program").success()
    }
}

impl Group {
    fn log(&self, program: &str) -> PathBuf {
        Path::new(LOGS).join(format!("{}.{program}", self.name.replace(' ', "-")))
    }
}

fn printed(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

/// Tests in the last list of failures that a test program printed.
fn failed_tests(printed: &str) -> BTreeSet<String> {
    let (_, list) = printed.rsplit_once("\nfailures:\n").unwrap_or_default();
    let names = list.lines().take_while(|line| !line.starts_with("test result"));
    names.filter_map(|line| line.strip_prefix("    ").map(str::to_owned)).collect()
}

/// Reads messages of cargo; the second value is true if the compiler has warned.
fn built(messages: &str) -> (Vec<Program>, bool) {
    let mut has_warned = false;
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).expect("cargo's messages are JSON");
        has_warned |= message["message"]["level"] == "warning";
        let (Some(file), true) = (message["executable"].as_str(), message["profile"]["test"] == true) else {
            continue;
        };
        let text = |value: &Value| value.as_str().expect("cargo's messages have this text").to_owned();
        programs.push(Program {
            name: text(&message["target"]["name"]),
            is_unit: message["target"]["kind"][0] != "test",
            file: file.into(),
            directory: Path::new(&text(&message["manifest_path"])).parent().expect("a directory").into(),
        });
    }
    (programs, has_warned)
}

/// Prints what failed in a log, shortened, and what a compiler reports in it.
fn repeat_failures(log: &Path) {
    println!("\n-- what failed in {}", log.display());
    let (mut is_shown, mut lines) = (false, 0);
    for line in printed(log).lines() {
        is_shown = line == "failures:" || is_shown && !line.starts_with("test result:");
        lines = if line.starts_with("---- ") { 0 } else { lines + 1 };
        let is_report = ["error:", "error[", "warning:"].iter().any(|start| line.starts_with(start));
        if is_report || is_shown && lines < REPEATED_MAX.0 {
            println!("{}", line.chars().take(REPEATED_MAX.1).collect::<String>());
        }
    }
}

fn main() -> ExitCode {
    let start = Instant::now();
    let mut arguments = env::args().skip(1);
    let messages = arguments.next().expect("the file of cargo's messages");
    let (programs, has_warned) = built(&fs::read_to_string(messages).expect("cargo's messages"));
    let (flags, mut jobs): (BTreeSet<String>, BTreeSet<String>) = arguments.partition(|one| one == "--full");
    let is_full = !flags.is_empty();
    let plan: Plan = toml::from_str(&fs::read_to_string(PLAN).expect(PLAN)).expect(PLAN);
    if jobs.is_empty() {
        jobs = plan.jobs;
        jobs.extend(plan.full_jobs.into_iter().filter(|_| is_full));
    }
    let mut groups: Vec<&Group> = plan.group.iter().filter(|group| jobs.contains(&group.job)).collect();
    if jobs.iter().any(|job| groups.iter().all(|group| group.job != *job)) {
        let known: BTreeSet<_> = plan.group.iter().map(|group| group.job.as_str()).collect();
        eprintln!("a job is one of {known:?}");
        return ExitCode::from(2);
    }
    let _ = fs::remove_dir_all(LOGS);
    fs::create_dir_all(LOGS).expect(LOGS);
    let env = if is_full { plan.full_env } else { BTreeMap::new() };
    let run = &Run { start, programs, is_full, env, failed: Mutex::default() };
    groups.sort_by_key(|group| group.stage);
    thread::scope(|scope| {
        for stage in groups.chunk_by(|a, b| a.stage == b.stage) {
            let begun: Vec<_> = stage.iter().map(|group| scope.spawn(move || run.group(group))).collect();
            for group in begun.into_iter().filter(|_| stage[0].stage > 0) {
                group.join().expect("a group ran");
            }
        }
    });
    let failed = run.failed.lock().expect("no thread has panicked");
    failed.iter().for_each(|log| repeat_failures(log));
    if has_warned {
        println!("\n-- the compiler has warned, see above");
    }
    println!("\n== done (at {} s)", start.elapsed().as_secs());
    ExitCode::from(u8::from(has_warned || !failed.is_empty()))
}
