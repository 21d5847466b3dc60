//! Sources that need threads: none gathers over mappings, none is left behind, and one that hangs is shown and not doubled.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
};

use crate::toy::{Playground, Script};
use orchestrator_harness::{free_port, own_process};
use orchestrator_ingester::StreamConfig;
use orchestrator_supervise::{Command, NodeSnapshot, Origin, testing::eventually};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stins-plain.cbors")
}

/// A played file as the stream of the original that made it.
fn replay(file: &Path, pace: Option<&str>) -> StreamConfig {
    StreamConfig {
        name: "golden".to_owned(),
        source: "replay".to_owned(),
        file: Some(file.display().to_string()),
        pace: pace.map(str::to_owned),
        ..StreamConfig::default()
    }
}

/// Names of the threads of this process, but for those that the test program itself has.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads").flatten();
    let main = std::process::id().to_string();
    let others = tasks.filter(|task| *task.file_name() != *main);
    // One that ends meanwhile has no name any more.
    let names = others.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let of_a_test = |name: &String| name.starts_with("threads::");
    let mut names: Vec<_> =
        names.map(|name| name.trim().to_owned()).filter(|name| !of_a_test(name)).collect();
    names.sort();
    names
}

/// An answer means that all threads of the server are there.
fn answers(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.1 404")
}

fn node(play: &Playground, child: &str) -> NodeSnapshot {
    play.tree.node(&format!("ingester/toys/{child}")).expect("a child")
}

fn items(play: &Playground) -> i64 {
    let metrics = node(play, "scan/stream_0").metrics;
    metrics.iter().find(|metric| metric.name == "items").map_or(0, |metric| metric.value)
}

#[test]
fn no_thread_gathers_over_mappings_and_none_is_left() {
    own_process("threads::no_thread_gathers_over_mappings_and_none_is_left", || {
        let listen = format!("127.0.0.1:{}", free_port());
        let change = |config: &mut orchestrator_ingester::IngesterConfig| {
            // The pace leaves the thread in the middle of the file.
            let sardana = StreamConfig {
                name: "sardana".to_owned(),
                source: "sardana".to_owned(),
                listen: Some(listen.clone()),
                ..StreamConfig::default()
            };
            config.stream = vec![replay(&golden(), Some("1/s")), sardana];
        };
        Playground::run(&[], vec![Script::Ends], change, async |play| {
            let mut first = None;
            for mapping in 1..=6 {
                let had = items(&play);
                play.begin(&["golden", "sardana"]).await;
                eventually("the file is read", || items(&play) > had).await;
                eventually("the server answers", || answers(&listen)).await;
                let first = first.get_or_insert_with(threads);
                let what = format!("mapping {mapping} has the threads of the first, {first:?}");
                eventually(&what, || threads().len() == first.len()).await;
            }
            assert!(first.is_some_and(|first| first.iter().any(|name| name == "source_0")), "its companion");
        });
        orchestrator_harness::eventually("no thread is left", || threads().is_empty());
    });
}

/// A pipe that nobody writes into hangs as a file system does that has gone away.
#[test]
fn a_read_that_hangs_is_shown_and_not_doubled() {
    own_process("threads::a_read_that_hangs_is_shown_and_not_doubled", || {
        let directory = tempfile::tempdir().expect("a directory");
        let pipe = directory.path().join("gone.cbors");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let change =
            |config: &mut orchestrator_ingester::IngesterConfig| config.stream = vec![replay(&pipe, None)];
        Playground::run(&[], vec![Script::Ends], change, async |play| {
            let readers = || threads().iter().filter(|name| *name == "source_0").count();
            let hangs = || node(&play, "source_0").in_progress.is_some_and(|hand| hand.name == "open file");
            for _ in 0..3 {
                play.begin(&["golden"]).await;
                eventually("it hangs", hangs).await;
                assert_eq!(readers(), 1);
            }
            eventually("the tree shows it", || node(&play, "source_0").stuck).await;
            // It is given up, and not started beside itself.
            let (tree, origin) = (play.tree.clone(), Origin::default());
            let restart = tree.command("ingester/toys/source_0", Command::Restart, &origin);
            let released = async {
                eventually("it is given up", || node(&play, "source_0").state == "stuck").await;
                assert_eq!(readers(), 1);
                drop(fs::OpenOptions::new().write(true).open(&pipe).expect("it is read"));
            };
            tokio::join!(async { restart.await.expect("a restart") }, released);
            // The run of the present mapping is read for.
            eventually("it hangs again", hangs).await;
            assert_eq!((node(&play, "source_0").incarnation, readers()), (2, 1));
            fs::write(&pipe, fs::read(golden()).expect("a dump")).expect("it is read");
            eventually("its items come", || items(&play) > 0).await;
        });
    });
}
