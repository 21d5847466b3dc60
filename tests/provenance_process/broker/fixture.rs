//! The real binary between a real broker and a real database. Tests share the servers that none of them ends; each has a
//! virtual host, a database and a site of its own.

use std::{collections::BTreeMap, ops::Deref};

use orchestrator_harness::{Instance, Postgres, ProvenanceEnv, Rabbit, eventually, psql};

use super::caller::Item;

/// Items that are asked for in one statement: a command line has its limit.
const ASKED: usize = 1_000;

/// A server of all tests, or, where it is to go away, of one.
pub(crate) enum Held<T: 'static> {
    Shared(&'static T),
    Own(T),
}

impl<T> Held<T> {
    /// The test's own server, to be stopped and started.
    pub(crate) fn own(&mut self) -> &mut T {
        match self {
            Self::Shared(_) => panic!("a server of all tests goes away for none"),
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

/// What a test has for itself.
pub(crate) struct Home {
    pub(crate) dsn: String,
    pub(crate) url: String,
    vhost: String,
    pub(crate) env: ProvenanceEnv,
}

/// All of it together.
pub(crate) struct Fixture {
    pub(crate) servers: Servers,
    pub(crate) home: Home,
}

impl Fixture {
    /// With the servers of all tests.
    pub(crate) fn new(name: &str, flavor: &str) -> Self {
        Self::with(Held::Shared(Rabbit::shared()), Held::Shared(Postgres::shared()), name, flavor)
    }

    /// With a broker of its own.
    pub(crate) fn with_own_broker(name: &str, flavor: &str) -> Self {
        Self::with(Held::Own(Rabbit::start()), Held::Shared(Postgres::shared()), name, flavor)
    }

    /// With a database server of its own.
    pub(crate) fn with_own_database(name: &str, flavor: &str) -> Self {
        Self::with(Held::Shared(Rabbit::shared()), Held::Own(Postgres::start()), name, flavor)
    }

    fn with(rabbit: Held<Rabbit>, postgres: Held<Postgres>, name: &str, flavor: &str) -> Self {
        let servers = Servers { rabbit, postgres };
        let dsn = servers.postgres.create_database(name);
        let url = servers.rabbit.create_vhost(name);
        let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.transport=amqp")
            .set(&format!("provenance.amqp.url={url}"))
            .set("provenance.writer.kind=postgres")
            .set(&format!("provenance.postgres.dsn={dsn}"));
        let (code, _, err) = env.base().cli(&["provenance", "init", "--dsn", &dsn, "--flavor", flavor]);
        assert_eq!(code, 0, "{err}");
        Self { servers, home: Home { dsn, url, vhost: name.to_owned(), env } }
    }

    /// Adds `--set SECTION.KEY=VALUE` to every start.
    pub(crate) fn set(mut self, assignment: &str) -> Self {
        self.home.env = self.home.env.set(assignment);
        self
    }

    /// Messages on the broker that are not acknowledged, by queue.
    pub(crate) fn waiting(&self) -> BTreeMap<String, u64> {
        let vhost = &self.home.vhost;
        let arguments = ["list_queues", "-p", vhost, "--no-table-headers", "name", "messages"];
        let listed = self.servers.rabbit.ctl(&arguments);
        let read = |line: &str| {
            let (queue, count) = line.split_once('\t')?;
            let count = count.trim().parse().expect("a number");
            (count > 0).then(|| (queue.to_owned(), count))
        };
        listed.lines().filter_map(read).collect()
    }

    /// Nothing is left on the broker, responses and dead letters included.
    pub(crate) fn emptied(&self) {
        eventually("empty queues", || self.waiting().is_empty());
    }
}

impl Home {
    pub(crate) fn start(&self) -> Instance {
        let instance = self.env.start();
        self.serving();
        instance
    }

    /// Each queue has its consumer.
    pub(crate) fn serving(&self) {
        eventually("all queues to be consumed", || self.metric("amqp", "consumed") == 160);
    }

    pub(crate) fn metric(&self, child: &str, name: &str) -> u64 {
        self.env.base().metric(&format!("provenance/{child}"), name)
    }

    /// The state of a child's connection.
    pub(crate) fn link(&self, child: &str) -> String {
        self.env.base().link(&format!("provenance/{child}")).state
    }
}

/// Those of `items` that the database does not hold.
///
/// # Errors
/// It is away.
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
