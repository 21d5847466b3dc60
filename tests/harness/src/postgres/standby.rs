//! A standby: it streams the log of a primary, and takes its place.

use std::fs;

use super::{Postgres, run};
use crate::wait_for;

impl Postgres {
    /// Starts a standby of `primary`, which streams its log.
    ///
    /// # Panics
    /// As [`Postgres::start`].
    pub fn standby_of(primary: &Self) -> Self {
        let mut made = Self::prepare();
        made.follow(primary);
        made
    }

    /// Makes a stopped or killed server a standby of `primary`, at the same address.
    ///
    /// # Panics
    /// If it does not start.
    pub fn follow(&mut self, primary: &Self) {
        let data = self.directory.join("data");
        if data.exists() {
            fs::remove_dir_all(&data).expect("remove the former cluster");
        }
        let mut copy = self.as_owner("pg_basebackup");
        copy.args(["-R", "-c", "fast", "-h", "127.0.0.1", "-U", "postgres", "-p", &primary.port.to_string()]);
        run(&mut copy);
        self.start_again();
    }

    /// Makes a standby the primary, and lets no commit wait for another one.
    ///
    /// # Panics
    /// If it is not a standby that runs.
    pub fn promote(&self) {
        self.script(&self.maintenance_dsn(), "SELECT pg_promote()");
        self.set("synchronous_standby_names", None);
    }

    /// Lets each commit wait for the standby.
    ///
    /// # Panics
    /// If it has none.
    pub fn await_standby(&self) {
        self.set("synchronous_standby_names", Some("*"));
        let dsn = self.maintenance_dsn();
        let confirms = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        wait_for("the standby", || (self.script(&dsn, confirms) == "1").then_some(()));
    }
}
