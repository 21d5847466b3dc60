//! Frozen arbiter of an ingester during a scan.

use std::thread;

use orchestrator_harness::{Snapshot, eventually, http, wait_for};

use super::{Drill, Expected, FRAMES, OURS, WINDOW};
use crate::detector::May;

/// Images of the other ingester's scan that are sent during the freeze.
const BESIDE: u64 = 5;

impl Drill {
    /// Freezes the arbiter of `path` for 4 s during a scan. The tree shows it, the other ingester continues
    /// its scan,
    ///
    /// and both scans are whole.
    pub(crate) fn freezes_in_the_middle(&mut self, path: &str) {
        let scan = self.next(FRAMES * 4, Expected::Whole);
        let frames = self.frames(scan);
        self.begin(scan);
        self.assign(scan);
        // The mapping is active before the last child, `log`, runs again.
        let before = wait_for("all children", || self.env.base.snapshot().filter(Snapshot::runs));
        self.await_link("eiger");
        self.eiger.start(scan);
        let may = |frame| if frame < self.least(scan) * 2 + WINDOW { May::Go } else { May::Wait };
        assert_eq!(self.eiger.images(scan, 0..frames / 2, may), frames / 2, "the connection holds");
        self.freeze_beside(path, scan);
        thread::scope(|scope| {
            let beside = scope.spawn(|| self.carry_beside_from(scan, BESIDE));
            assert_eq!(
                self.eiger.images(scan, frames / 2..frames, |_| May::Go),
                frames,
                "the connection holds"
            );
            self.eiger.end(scan);
            self.await_own(scan);
            beside.join().expect("the other one carries it, too");
        });
        eventually("nothing is stuck any more", || {
            self.tree().branch("ingester").iter().all(|node| node["stuck"] != true)
        });
        self.finish(scan);
        let after = self.tree();
        for (node, was) in after.branch("ingester").iter().zip(before.branch("ingester")) {
            assert_eq!(node["incarnation"], was["incarnation"], "{} is not started again", node["path"]);
        }
    }

    /// Freezes `path` and sends images of the other ingester's scan meanwhile.
    ///
    /// Repeats until an image has arrived during a freeze, which may take several tries on a busy machine.
    fn freeze_beside(&self, path: &str, scan: u64) {
        self.await_link("pilatus");
        self.pilatus.start(scan);
        let is_stuck = || self.tree().branch(OURS).iter().any(|node| node["stuck"] == true);
        for frame in 0..BESIDE {
            eventually("it thaws", || !is_stuck());
            let url = format!("/v1/actors/{path}/freeze");
            let json = ["Content-Type: application/json"];
            let reply = http(&self.env.base.admin_socket(), "POST", &url, &json, "{\"reason\":\"drill\"}");
            assert_eq!(reply.status, 200, "{}", reply.body);
            eventually("it is shown", is_stuck);
            self.pilatus.images(scan, frame..frame + 1, |_| May::Go);
            let seen = wait_for("the image, or the thaw", || {
                let carried = self.other.count(scan) > frame + 1;
                let stuck = is_stuck();
                if carried && stuck {
                    Some(true)
                } else if stuck {
                    None
                } else {
                    Some(false)
                }
            });
            if seen {
                return self.pilatus_goes_on(scan, frame + 1);
            }
        }
        panic!("the other one stood still whenever {path} did");
    }

    /// Sends the rest of the first images.
    fn pilatus_goes_on(&self, scan: u64, from: u64) {
        self.pilatus.images(scan, from..BESIDE, |_| May::Go);
    }
}
