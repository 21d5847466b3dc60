//! A wall clock that jumps by an hour (libfaketime) while a handler runs. Leases are written by the
//! agents' own clocks.

use std::{fs, path::PathBuf};

use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, eventually};
use serde_json::json;

use super::BINARY;

/// An agent with an adjustable clock. Its handler runs until it may end.
struct Agent {
    site: CatalogEnv,
    instance: Instance,
}

fn library() -> PathBuf {
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").map_while(Result::ok);
    let mut found = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("libfaketimeMT.so.1 is missing: install faketime")
}

impl Agent {
    fn new(server: &Ermrest) -> Self {
        let site = CatalogEnv::new(BINARY, server);
        let path = |name: &str| site.base().path().join(name).display().to_string();
        let (begun, may_end, ended, offset) = (path("begun"), path("may_end"), path("ended"), path("offset"));
        let script = format!(
            "cat > /dev/null; echo x >> {begun}; while [ ! -e {may_end} ]; do sleep 0.1; done; echo x >> {ended}"
        );
        let site = site
            .rule(FULL_RULE)
            .rule(&format!("handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", {script:?}] }}\n"));
        fs::write(&offset, "+0").expect("it is written");
        let library = library().display().to_string();
        let instance = site.start_with(&[
            ("LD_PRELOAD", &library),
            ("FAKETIME_TIMESTAMP_FILE", &offset),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ]);
        Self { site, instance }
    }

    fn jump(&self, to: &str) {
        let offset = self.site.base().path().join("offset");
        let new = offset.with_extension("new");
        fs::write(&new, to).expect("it is written");
        fs::rename(new, &offset).expect("it is replaced at once");
    }

    /// Handlers that have written this mark.
    fn marks(&self, name: &str) -> usize {
        fs::read_to_string(self.site.base().path().join(name)).unwrap_or_default().lines().count()
    }

    fn allow_end(&self) {
        fs::write(self.site.base().path().join("may_end"), "").expect("it is written");
    }

    fn count(&self, name: &str) -> u64 {
        self.site.rule_status("work")[name].as_u64().expect("a number")
    }
}

/// End of the lease.
fn lease(server: &Ermrest) -> String {
    server.rows("Foo")[0]["lease_until"].as_str().unwrap_or_default().to_owned()
}

fn state(server: &Ermrest) -> String {
    server.rows("Foo")[0]["state"].as_str().unwrap_or_default().to_owned()
}

/// A single agent keeps its rows whatever its clock does, since it measures its own leases with a
/// monotonic clock.
#[test]
fn an_agent_whose_clock_jumps_keeps_its_row() {
    let server = Ermrest::start(&[]);
    let agent = Agent::new(&server);
    server.insert_foo(1, "actionable");
    eventually("the row to be worked on", || agent.marks("begun") == 1);
    for jump in ["+1h", "-1h", "+0"] {
        let before = lease(&server);
        agent.jump(jump);
        // Renewed twice by the new time.
        eventually("the lease to follow the clock", || lease(&server)[..16] != before[..16]);
        let next = lease(&server);
        eventually("the lease to be renewed again", || lease(&server) != next);
        assert_eq!(
            (agent.marks("begun"), agent.count("lost"), agent.count("taken_over")),
            (1, 0, 0),
            "{jump}"
        );
    }
    agent.allow_end();
    eventually("the row to be complete", || state(&server) == "complete");
    assert_eq!((agent.marks("ended"), server.rows("Foo")[0]["attempts"].clone()), (1, json!(1)));
    assert!(agent.instance.terminate().success());
}

/// An agent whose clock is an hour fast takes another agent's row over once. The other agent
/// cancels its handler and writes nothing.
#[test]
fn an_agent_with_a_fast_clock_takes_over_and_the_other_one_stops() {
    let server = Ermrest::start(&[]);
    let first = Agent::new(&server);
    server.insert_foo(1, "actionable");
    eventually("the row to be worked on", || first.marks("begun") == 1);
    let second = Agent::new(&server);
    eventually("the second to poll", || second.count("polls") > 2);
    assert_eq!(second.count("taken_over"), 0);
    second.jump("+1h");
    eventually("the row to be taken over", || second.marks("begun") == 1);
    eventually("the first to know", || first.count("lost") == 1);
    first.allow_end();
    second.allow_end();
    eventually("the row to be complete", || state(&server) == "complete");
    assert_eq!((first.marks("ended"), second.marks("ended")), (0, 1));
    assert_eq!((first.count("done"), second.count("done")), (0, 1));
    assert_eq!((second.count("taken_over"), server.rows("Foo")[0]["attempts"].clone()), (1, json!(2)));
}

/// An agent whose clock is an hour slow writes leases that have expired for all others. It loses
/// its rows, and each is completed once.
#[test]
fn an_agent_with_a_slow_clock_loses_its_row_to_the_other_one() {
    let server = Ermrest::start(&[]);
    let first = Agent::new(&server);
    server.insert_foo(1, "actionable");
    eventually("the row to be worked on", || first.marks("begun") == 1);
    let second = Agent::new(&server);
    first.jump("-1h");
    eventually("the row to be taken over", || second.marks("begun") == 1);
    eventually("the first to know", || first.count("lost") == 1);
    // By the first agent's clock this lease lasts another hour.
    second.allow_end();
    first.allow_end();
    eventually("the row to be complete", || state(&server) == "complete");
    assert_eq!((first.marks("ended"), second.marks("ended")), (0, 1));
    assert_eq!((first.count("taken_over"), second.count("taken_over")), (0, 1));
}
