//! Threads of sources: none accumulates or is left behind, and one that hangs is shown and not
//! started twice.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
};

use orchestrator_harness::{free_port, own_process};
use orchestrator_observe::NodeSnapshot;
use orchestrator_supervise::{Command, Origin, State, testing::eventually};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{
    StreamConfig,
    tests::toy::{Fixture, Script},
};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stins-plain.cbors")
}

/// A replayed file, with the stream name of the dump.
fn replay(file: &Path, pace: Option<&str>) -> StreamConfig {
    StreamConfig {
        name: "golden".to_owned(),
        source: "replay".to_owned(),
        file: Some(file.display().to_string()),
        pace: pace.map(str::to_owned),
        ..StreamConfig::default()
    }
}

/// Names of the threads of this process, without those of the test harness.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads").flatten();
    let main = std::process::id().to_string();
    let others = tasks.filter(|task| *task.file_name() != *main);
    // A thread that ends meanwhile has no name.
    let names = others.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let of_a_test = |name: &String| name.starts_with("tests::");
    let mut names: Vec<_> =
        names.map(|name| name.trim().to_owned()).filter(|name| !of_a_test(name)).collect();
    names.sort();
    names
}

/// True once the server answers, when all its threads run.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 404")
}

fn node(fixture: &Fixture, child: &str) -> NodeSnapshot {
    fixture.tree.node(&format!("ingester/toys/{child}")).expect("a child")
}

fn items(fixture: &Fixture) -> i64 {
    let metrics = node(fixture, "scan/stream_0").metrics;
    metrics.iter().find(|metric| metric.name == "items").map_or(0, |metric| metric.value)
}

#[test]
fn threads_do_not_accumulate_over_mappings() {
    own_process("tests::threads::threads_do_not_accumulate_over_mappings", || {
        let listen = format!("127.0.0.1:{}", free_port());
        let change = |config: &mut crate::IngesterConfig| {
            // The pace leaves the thread in the middle of the file.
            let sardana = StreamConfig {
                name: "sardana".to_owned(),
                source: "sardana".to_owned(),
                listen: Some(listen.clone()),
                ..StreamConfig::default()
            };
            config.stream = vec![replay(&golden(), Some("1/s")), sardana];
        };
        Fixture::run(&[], vec![Script::Ends], change, async |fixture| {
            let mut first = None;
            for mapping in 1..=6 {
                let had = items(&fixture);
                fixture.begin(&["golden", "sardana"]).await;
                eventually("the file is read", || items(&fixture) > had).await;
                eventually("the server answers", || answers(&listen)).await;
                let first = first.get_or_insert_with(threads);
                let what = format!("mapping {mapping} has the threads of the first, {first:?}");
                eventually(&what, || threads().len() == first.len()).await;
            }
            assert!(
                first.is_some_and(|first| first.iter().any(|name| name == "source_0")),
                "its reader child"
            );
        });
        orchestrator_harness::eventually("no thread is left", || threads().is_empty());
    });
}

/// A pipe without a writer hangs like an unavailable file system.
#[test]
fn a_hanging_read_is_shown_and_not_started_twice() {
    own_process("tests::threads::a_hanging_read_is_shown_and_not_started_twice", || {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("gone.cbors");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let change = |config: &mut crate::IngesterConfig| config.stream = vec![replay(&pipe, None)];
        Fixture::run(&[], vec![Script::Ends], change, async |fixture| {
            let readers = || threads().iter().filter(|name| *name == "source_0").count();
            let hangs =
                || node(&fixture, "source_0").in_progress.is_some_and(|work| work.name == "open file");
            for _ in 0..3 {
                fixture.begin(&["golden"]).await;
                eventually("it hangs", hangs).await;
                assert_eq!(readers(), 1);
            }
            eventually("the tree shows it", || node(&fixture, "source_0").stuck).await;
            // A stuck thread is reported and no second one is started.
            let (tree, origin) = (fixture.tree.clone(), Origin::default());
            let restart = tree.command("ingester/toys/source_0", Command::Restart, &origin);
            let released = async {
                eventually("it is given up", || node(&fixture, "source_0").state == State::Stuck).await;
                assert_eq!(readers(), 1);
                drop(fs::OpenOptions::new().write(true).open(&pipe).expect("it is read"));
            };
            tokio::join!(async { restart.await.expect("a restart") }, released);
            // The read for the current mapping's run begins.
            eventually("it hangs again", hangs).await;
            assert_eq!((node(&fixture, "source_0").incarnation, readers()), (2, 1));
            fs::write(&pipe, fs::read(golden()).expect("a dump")).expect("it is read");
            eventually("its items come", || items(&fixture) > 0).await;
        });
    });
}
