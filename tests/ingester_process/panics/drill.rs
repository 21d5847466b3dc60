//! Panic drill: two ingesters in one process, each with detector and workers, and panics in the first one.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use orchestrator_harness::{Controller, IngesterEnv, Instance, Snapshot, ZmtpPeer, eventually, wait_for};
use serde_json::{Value, json};

use super::{
    BINARY,
    worker::{Heard, Worker, ping},
};
use crate::detector::{Detector, May};

mod freeze;

/// Tree paths of the ingester that panics and of the other one.
pub(crate) const OURS: &str = "ingester/eiger-ingester";
const OTHER: &str = "ingester/pilatus-ingester";
/// Images of a scan that completes, and of one that is cut short.
const FRAMES: u64 = 60;
const LONG: u64 = 5_000;
/// Maximum number of images in flight.
const WINDOW: u64 = 8;
const HEALED_MS: u64 = 1_000;

/// The uuid of a scan.
pub(crate) fn mapping(scan: u64) -> String {
    format!("6277a4d0-975c-4dfe-97be-7f6d1d5a{scan:04x}")
}

/// Expected result of a scan at the first ingester's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Whole,
    CutShort,
}

/// Environment, detectors and workers of a drill.
pub(crate) struct Drill {
    env: IngesterEnv,
    instance: Instance,
    eiger: Detector,
    pilatus: Detector,
    workers: [Worker; 2],
    other: Worker,
    /// Number of images and expected result of each scan; scan numbers start at 1.
    scans: Vec<(u64, Expected)>,
}

impl Drill {
    pub(crate) fn new() -> Self {
        let (eiger, pilatus) = (Detector::new(), Detector::new());
        // The second stream of the first one has no part in any mapping.
        let idle = "dump_path = \"eiger.cbors\"\negress_bytes_per_peer = 1048576\n[[ingester.stream]]\nname = \"idle\"\n\
                    source = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"";
        let env = IngesterEnv::new(BINARY, &eiger.url(), idle);
        let port = env.add_ingester("pilatus", &pilatus.url());
        let instance = env.start();
        wait_for("the other one is in Redis", || env.controller_of("pilatus").ingester_state());
        let workers = ["w0", "w1"].map(|name| Worker::dial(env.port, name));
        let other = Worker::dial(port, "p");
        Self { env, instance, eiger, pilatus, workers, other, scans: Vec::new() }
    }

    /// Metric of scans that were cut short.
    pub(crate) fn broken(&self) -> i64 {
        self.env.metric("scan/work", "interrupted_scans")
    }

    /// Runs a scan without a panic.
    pub(crate) fn whole(&mut self) {
        let scan = self.next(FRAMES, Expected::Whole);
        self.begin(scan);
        self.carry(scan);
    }

    /// Panics between two mappings, or in a thread at the start of the next one. The next scan must be whole.
    pub(crate) fn panics_before_a_mapping(&mut self, path: &str) {
        let before = self.tree();
        self.env.base.inject_panic(path);
        let scan = self.next(FRAMES, Expected::Whole);
        if is_thread(path) {
            self.begin(scan);
            self.await_healed(path, &before);
        } else {
            self.await_healed(path, &before);
            self.begin(scan);
        }
        self.carry(scan);
    }

    /// Panics at the start of a mapping. The update is published before the panic is injected if `first`.
    pub(crate) fn panics_while_one_begins(&mut self, path: &str, first: bool) {
        // An idle thread does not panic, so its panic is injected before the update.
        let first = first && !is_thread(path);
        let before = self.tree();
        let scan = self.next(FRAMES, Expected::Whole);
        if first {
            self.order(scan);
        }
        self.env.base.inject_panic(path);
        if !first {
            self.order(scan);
        }
        self.await_healed(path, &before);
        self.await_taken(scan);
        self.carry(scan);
    }

    /// Panics once each worker has more than `after` images, with more in flight.
    pub(crate) fn panics_in_the_middle(&mut self, path: &str, after: u64) {
        let expected = if touches_scans(path) { Expected::CutShort } else { Expected::Whole };
        let scan = self.next(LONG, expected);
        self.begin(scan);
        self.assign(scan);
        let before = self.tree();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let may = |frame| match frame < self.least(scan) * 2 + WINDOW {
                    _ if stop.load(SeqCst) => May::Stop,
                    true => May::Go,
                    false => May::Wait,
                };
                self.eiger.start(scan);
                self.eiger.images(scan, 0..LONG, may)
            });
            let beside = scope.spawn(|| self.carry_beside(scan));
            eventually("the scan is in its middle", || self.least(scan) > after);
            self.env.base.inject_panic(path);
            self.await_healed(path, &before);
            if expected == Expected::Whole {
                assert_eq!(sending.join().expect("it sends"), LONG);
                self.eiger.end(scan);
                self.await_own(scan);
            } else {
                let tree = self.tree();
                let note = &tree.node(&format!("{OURS}/scan/work"))["note"]["text"];
                assert!(
                    note.as_str().is_some_and(|note| note.contains("set a new mapping")),
                    "{path}: {note}"
                );
                stop.store(true, SeqCst);
                let left = sending.join().expect("it sends");
                assert!(left < LONG, "the scan was over before the panic");
                // The remaining images are dropped.
                self.await_link("eiger");
                self.eiger.images(scan, left..left + 50, |_| May::Go);
                self.eiger.end(scan);
            }
            beside.join().expect("the other one is not disturbed");
        });
        self.finish(scan);
    }

    /// Checks that workers received every whole scan, the first events of scans that were cut short, and
    /// nothing else.
    pub(crate) fn check_events(self, child: &str) {
        let log = self.env.base.log();
        assert!(!log.contains("did not stop in time"), "a part was waited for in vain: {log}");
        let Self { instance, workers, other, scans, .. } = self;
        workers.iter().chain([&other]).for_each(Worker::close);
        assert!(instance.terminate().success(), "it did not end in order: {log}");
        let (lists, beside) = (workers.map(Worker::join), other.join());
        for (at, list) in lists.iter().enumerate() {
            check_events(
                list,
                &scans,
                |scan| own(at as u64, scan.0),
                &format!("w{at} after panics in {child}"),
            );
        }
        let whole: Vec<_> = scans.iter().map(|(frames, _)| (*frames, Expected::Whole)).collect();
        check_events(
            &beside,
            &whole,
            |scan| (0..scan.0 + 2).collect(),
            &format!("p beside panics in {child}"),
        );
    }

    fn next(&mut self, frames: u64, expected: Expected) -> u64 {
        self.scans.push((frames, expected));
        self.scans.len() as u64
    }

    fn frames(&self, scan: u64) -> u64 {
        self.scans[scan as usize - 1].0
    }

    /// Smaller number of events of the two workers.
    fn least(&self, scan: u64) -> u64 {
        self.workers.iter().map(|worker| worker.count(scan)).min().unwrap_or_default()
    }

    fn tree(&self) -> Snapshot {
        wait_for("the tree", || self.env.base.snapshot())
    }

    fn controllers(&self) -> [Controller<'_>; 2] {
        [self.env.controller(), self.env.controller_of("pilatus")]
    }

    fn order(&self, scan: u64) {
        let update = Controller::update_json(&mapping(scan), &["eiger", "pilatus"], false);
        self.env.controller().publish_update(&update);
    }

    fn await_taken(&self, scan: u64) {
        let controllers = self.controllers();
        let taken = || controllers.iter().all(|controller| controller.is_active(&mapping(scan)));
        eventually("the mapping is taken", taken);
    }

    fn begin(&self, scan: u64) {
        self.order(scan);
        self.await_taken(scan);
    }

    fn await_link(&self, stream: &str) {
        let at = u8::from(stream == "eiger");
        let path = format!("ingester/{stream}-ingester/scan/stream_{at}");
        eventually("the detector is connected", || self.env.base.link(&path).state == "up");
    }

    /// Assigns start and end to all workers, images in turn, and everything to an absent worker to use the
    /// spill file.
    fn assign(&self, scan: u64) {
        let frames = self.frames(scan);
        let event = |event: u64| {
            let mut eiger = vec!["away"];
            let all = self.workers.iter().enumerate();
            eiger.extend(
                all.filter(|(at, _)| has(*at as u64, event, frames)).map(|(_, worker)| worker.name()),
            );
            (event, json!({ "eiger": eiger, "pilatus": ["p"] }))
        };
        let events: Vec<(u64, Value)> = (0..frames + 2).map(event).collect();
        self.env.controller().assign_events(&mapping(scan), &events);
    }

    /// Sends a started scan completely.
    fn carry(&self, scan: u64) {
        let frames = self.frames(scan);
        self.assign(scan);
        thread::scope(|scope| {
            let beside = scope.spawn(|| self.carry_beside(scan));
            self.await_link("eiger");
            self.eiger.start(scan);
            assert_eq!(self.eiger.images(scan, 0..frames, |_| May::Go), frames, "the connection holds");
            self.eiger.end(scan);
            self.await_own(scan);
            beside.join().expect("the other one carries it, too");
        });
        self.finish(scan);
        // A new worker is listed.
        let name = format!("late{scan}");
        let mut late = wait_for("the port", || ZmtpPeer::connect(self.env.port, "DEALER", &name).ok());
        late.send(&[&ping(&name)]).expect("it is read");
        eventually("a worker is heard of", || {
            let state = self.env.controller().ingester_state().unwrap_or_default();
            let workers = state["connected_workers"].as_object().into_iter().flatten();
            workers.map(|(_, worker)| &worker["name"]).any(|known| *known == name.as_str())
        });
    }

    fn await_own(&self, scan: u64) {
        for (at, worker) in self.workers.iter().enumerate() {
            let all = own(at as u64, self.frames(scan)).len() as u64;
            eventually("the worker has all of its own", || worker.count(scan) >= all);
        }
    }

    fn carry_beside(&self, scan: u64) {
        self.await_link("pilatus");
        self.pilatus.start(scan);
        self.carry_beside_from(scan, 0);
    }

    fn carry_beside_from(&self, scan: u64, first: u64) {
        let frames = self.frames(scan);
        let may = |frame| if frame < self.other.count(scan) + WINDOW { May::Go } else { May::Wait };
        assert_eq!(self.pilatus.images(scan, first..frames, may), frames, "the connection holds");
        self.pilatus.end(scan);
        eventually("the other one's worker has all", || self.other.count(scan) >= frames + 2);
    }

    fn finish(&self, scan: u64) {
        let uuid = mapping(scan);
        self.env.controller().publish_update(&Controller::update_json(&uuid, &[], true));
        let controllers = self.controllers();
        eventually("the end is answered", || controllers.iter().all(|one| one.is_finished(&uuid)));
    }

    /// Waits for the panic in `path` and the restart; checks which children were restarted, and the time.
    fn await_healed(&self, path: &str, before: &Snapshot) {
        let incarnation = |tree: &Snapshot, path: &str| tree.node(path)["incarnation"].as_u64().expect("one");
        let healed = wait_for("it to heal", || {
            let tree = self.env.base.snapshot()?;
            let exits = |tree: &Snapshot| tree.node(path)["last_exit"].clone();
            let hit = exits(&tree)["kind"] == "panicked" && exits(&tree) != exits(before);
            (hit && tree.runs() && incarnation(&tree, path) > incarnation(before, path)).then_some(tree)
        });
        let exit = &healed.node(path)["last_exit"];
        assert!(exit["reason"].as_str().is_some_and(|why| why.contains("injected panic")), "{exit}");
        let at = exit["at_ms"].as_u64().expect("a time");
        let starts = healed.branch(OURS).into_iter().filter_map(|node| node["started_ms"].as_u64());
        let took = starts.max().expect("a start").saturating_sub(at);
        assert!(took < HEALED_MS, "{path} took {took} ms to heal: {healed:#}");
        eprintln!("{path}: healed in {took} ms");

        let below = |node: &Value| node["path"].as_str().expect("a path")["orchestrator/".len()..].to_owned();
        let all: Vec<_> = healed.branch(OURS).into_iter().map(below).collect();
        let hit = all.iter().position(|one| one == path).expect("it is there");
        let in_scan = path.contains("/scan/");
        for (at, one) in all.iter().enumerate() {
            let again = incarnation(&healed, one) > incarnation(before, one);
            let expected = if in_scan { one.contains("/scan/") } else { at >= hit };
            // A new mapping restarts `scan` and later children.
            let with_mappings = one.contains("/scan") || one.ends_with("/log");
            assert!(again == expected || again && with_mappings, "{one} after a panic in {path}");
        }
        for node in healed.branch(OTHER) {
            assert_ne!(node["last_exit"]["kind"], "panicked");
            // Each mapping restarts `scan` and later children.
            if !below(node).contains("/scan") && !below(node).ends_with("/log") {
                assert_eq!(node["incarnation"], 1, "{} is not touched", below(node));
            }
        }
    }
}

/// A panic cuts a scan short in every child but the last.
pub(crate) fn touches_scans(path: &str) -> bool {
    !path.ends_with("/log")
}

/// Threads panic only when they receive work.
fn is_thread(path: &str) -> bool {
    ["/spill", "/dump"].iter().any(|child| path.ends_with(child))
}

/// Assigns event `event` of a scan of `frames` images to worker `at`.
fn has(at: u64, event: u64, frames: u64) -> bool {
    event == 0 || event == frames + 1 || (event - 1) % 2 == at
}

/// Events of worker `at`.
fn own(at: u64, frames: u64) -> Vec<u64> {
    (0..frames + 2).filter(|event| has(at, *event, frames)).collect()
}

fn check_events(
    heard: &[Heard],
    scans: &[(u64, Expected)],
    own: impl Fn(&(u64, Expected)) -> Vec<u64>,
    who: &str,
) {
    assert!(heard.iter().all(|one| one.right), "{who} has items that belong to other events");
    assert!(heard.is_sorted_by_key(|one| one.scan), "{who} has events of a scan within another");
    for (number, scan) in (1..).zip(scans) {
        let had: Vec<_> = heard.iter().filter(|one| one.scan == number).map(|one| one.event).collect();
        let own = own(scan);
        match scan.1 {
            Expected::Whole => assert_eq!(had, own, "{who}, scan {number}"),
            Expected::CutShort => {
                assert!(
                    own.starts_with(&had),
                    "{who}, scan {number}, {} events: {:?}",
                    had.len(),
                    &had[had.len().saturating_sub(20)..]
                );
                assert!(had.len() < own.len(), "{who} has all of scan {number}");
            }
        }
    }
}
