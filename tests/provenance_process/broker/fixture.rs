//! The real binary between a real broker and a real database. Tests share servers that they do not stop;
//! each has its own virtual host, database and test environment.

use std::{collections::BTreeMap, ops::Deref};

use orchestrator_harness::{Instance, Postgres, ProvenanceEnv, Rabbit, eventually, psql};

use super::caller::Item;

/// Rows per query, because command lines are limited.
const ASKED: usize = 1_000;

/// Server shared by all tests, or owned by a test that stops it.
pub(crate) enum Held<T: 'static> {
    Shared(&'static T),
    Own(T),
}

impl<T> Held<T> {
    pub(crate) fn own(&mut self) -> &mut T {
        match self {
            Self::Shared(_) => panic!("a shared server must not be stopped"),
            Self::Own(server) => server,
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

pub(crate) struct Servers {
    pub(crate) rabbit: Held<Rabbit>,
    pub(crate) postgres: Held<Postgres>,
}

/// Resources of one test.
pub(crate) struct Home {
    pub(crate) dsn: String,
    pub(crate) url: String,
    vhost: String,
    pub(crate) env: ProvenanceEnv,
}

/// Servers and resources of one test.
pub(crate) struct Fixture {
    pub(crate) servers: Servers,
    pub(crate) home: Home,
}

impl Fixture {
    /// Uses the shared servers.
    pub(crate) fn new(name: &str, flavor: &str) -> Self {
        Self::with(Held::Shared(Rabbit::shared()), Held::Shared(Postgres::shared()), name, flavor)
    }

    /// Starts an own broker.
    pub(crate) fn with_own_broker(name: &str, flavor: &str) -> Self {
        Self::with_broker(Rabbit::start(), name, flavor)
    }

    /// Uses the broker `rabbit`.
    pub(crate) fn with_broker(rabbit: Rabbit, name: &str, flavor: &str) -> Self {
        Self::with(Held::Own(rabbit), Held::Shared(Postgres::shared()), name, flavor)
    }

    /// Starts an own database server.
    pub(crate) fn with_own_database(name: &str, flavor: &str) -> Self {
        Self::with(Held::Shared(Rabbit::shared()), Held::Own(Postgres::start()), name, flavor)
    }

    fn with(rabbit: Held<Rabbit>, postgres: Held<Postgres>, name: &str, flavor: &str) -> Self {
        let servers = Servers { rabbit, postgres };
        let dsn = servers.postgres.create_database(name);
        let home = Home::new(&servers.rabbit, name, &dsn);
        let (code, _, err) = home.env.base().cli(&["provenance", "init", "--dsn", &dsn, "--flavor", flavor]);
        assert_eq!(code, 0, "{err}");
        Self { servers, home }
    }

    /// Adds `--set SECTION.KEY=VALUE` to every start.
    pub(crate) fn set(mut self, assignment: &str) -> Self {
        self.home.env = self.home.env.set(assignment);
        self
    }

    /// Numbers of unacknowledged messages by queue.
    pub(crate) fn waiting(&self) -> BTreeMap<String, u64> {
        let queues = self.servers.rabbit.queues(&self.home.vhost, "messages");
        queues.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Waits until every queue is empty, including responses and dead letters.
    pub(crate) fn emptied(&self) {
        eventually("empty queues", || self.waiting().is_empty());
    }
}

impl Home {
    /// Creates the virtual host `vhost`, for rows of the database `dsn`.
    pub(crate) fn new(rabbit: &Rabbit, vhost: &str, dsn: &str) -> Self {
        let url = rabbit.create_vhost(vhost);
        let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.transport=amqp")
            .set("provenance.client.wait_min_secs=2")
            .set(&format!("provenance.amqp.url={url}"))
            .set("provenance.writer.kind=postgres")
            .set(&format!("provenance.postgres.dsn={dsn}"));
        Self { dsn: dsn.to_owned(), url, vhost: vhost.to_owned(), env }
    }

    pub(crate) fn start(&self) -> Instance {
        let instance = self.env.start();
        self.serving();
        instance
    }

    /// Starts with further values of keys, without waiting for the queues.
    pub(crate) fn start_with(&self, assignments: &[&str]) -> Instance {
        let mut command = self.env.command();
        command.args(assignments.iter().flat_map(|assignment| ["--set", assignment]));
        let instance = Instance::spawn(command);
        eventually("the endpoint to answer", || self.env.base().cli(&["tree"]).0 == 0);
        instance
    }

    /// Waits until each queue has a consumer.
    pub(crate) fn serving(&self) {
        eventually("all queues to be consumed", || self.metric("amqp", "consumed") == 160);
    }

    pub(crate) fn metric(&self, child: &str, name: &str) -> u64 {
        self.env.base().metric(&format!("provenance/{child}"), name)
    }

    /// State of a child's link.
    pub(crate) fn link(&self, child: &str) -> String {
        self.env.base().link(&format!("provenance/{child}")).state
    }
}

/// Number of `items` that are missing in the database.
///
/// # Errors
/// The database is unavailable.
pub(crate) fn missing(dsn: &str, items: &[Item]) -> Result<u64, String> {
    let mut missing = 0;
    let mut tables: BTreeMap<_, Vec<&Item>> = BTreeMap::new();
    items.iter().for_each(|item| tables.entry((item.table, item.column)).or_default().push(item));
    for ((table, column), items) in tables {
        for items in items.chunks(ASKED) {
            let hex = |item: &&Item| item.key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let keys: Vec<String> = items.iter().map(hex).collect();
            let sql = format!(
                "SELECT count(*) FROM unnest('{{{}}}'::text[]) AS n (key)
                 WHERE NOT EXISTS (SELECT FROM {table} t WHERE t.{column} = decode(n.key, 'hex'))",
                keys.join(",")
            );
            missing += psql(dsn, &sql)?.parse::<u64>().expect("a count");
        }
    }
    Ok(missing)
}
