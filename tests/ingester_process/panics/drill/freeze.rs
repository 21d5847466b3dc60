//! An ingester whose arbiter stands still within a scan.

use std::thread;

use orchestrator_harness::{eventually, http, wait_for};

use super::{Drill, FRAMES, Fate, OURS, WINDOW};
use crate::detector::May;

/// Images of the other ingester's scan that are sent while the first one stands still.
const BESIDE: u64 = 5;

impl Drill {
    /// The arbiter of `path` stands still in the middle of a scan, for four seconds. The tree answers and shows it, the other ingester
    /// carries its own scan meanwhile, and both are whole.
    pub(crate) fn freezes_in_the_middle(&mut self, path: &str) {
        let scan = self.next(FRAMES * 4, Fate::Whole);
        let frames = self.frames(scan);
        self.begin(scan);
        self.assign(scan);
        let before = self.tree();
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

    /// Freezes `path` and sends the first images of the other ingester's scan while it stands still: as often as it takes for that to be
    /// seen, on a machine that is busy.
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

    /// The rest of the first images, so that it is known how many there were.
    fn pilatus_goes_on(&self, scan: u64, from: u64) {
        self.pilatus.images(scan, from..BESIDE, |_| May::Go);
    }
}
