//! Provenance as the original runs it: the real binary between a real RabbitMQ and a real PostgreSQL, with either of them, or
//! itself, killed in the middle of a load.

use orchestrator_harness::{
    Instance, Postgres, ProvenanceSite, Rabbit, eventually,
    load::{Dice, seeds},
    sha1_of,
};
use serde_json::json;

const ROWS: u32 = 20_000;
const ROUNDS: &str = "ORCHESTRATOR_PROVENANCE_KILL_ROUNDS";

/// The three together.
struct House {
    rabbit: Rabbit,
    postgres: Postgres,
    dsn: String,
    site: ProvenanceSite,
    rows: String,
}

impl House {
    fn new(flavor: &str) -> Self {
        let (rabbit, postgres) = (Rabbit::start(), Postgres::start());
        let dsn = postgres.create_database("provenance");
        let site = ProvenanceSite::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set("provenance.transport=amqp")
            .set(&format!("provenance.amqp.url={}", rabbit.url()))
            .set("provenance.writer.kind=postgres")
            .set(&format!("provenance.postgres.dsn={dsn}"));
        let (code, _, err) = site.site().cli(&["provenance", "init", "--dsn", &dsn, "--flavor", flavor]);
        assert_eq!(code, 0, "{err}");
        let rows = site.file((0..ROWS).map(|number| json!({"add": "content", "id": sha1_of(0, number)})));
        Self { rabbit, postgres, dsn, site, rows }
    }

    fn start(&self) -> Instance {
        let instance = self.site.start();
        self.serving();
        instance
    }

    fn serving(&self) {
        let consumed = || self.site.site().figure("provenance/amqp", "consumed");
        eventually("all queues to be consumed", || consumed() == 160);
    }

    /// Nothing that was confirmed is missing.
    fn judge(&self) {
        self.serving();
        let answers = || self.site.site().cli(&["provenance", "stats"]).0 == 0;
        eventually("the store to answer", answers);
        let (confirmed, there) = (self.site.confirmed(&self.rows), self.site.count("content"));
        assert!(there >= confirmed, "{there} of {confirmed} rows");
    }

    /// An import that goes on completes the rest, and nothing is left on the broker.
    fn complete(&self) {
        eventually("an import that goes on to its end", || {
            self.site.site().cli(&["provenance", "import", "--resume", &self.rows]).0 == 0
        });
        assert_eq!(self.site.count("content"), u64::from(ROWS));
        eventually("empty queues", || {
            let queues = self.rabbit.ctl(&["-q", "list_queues", "messages"]);
            queues.lines().filter_map(|line| line.trim().parse::<u64>().ok()).all(|waiting| waiting == 0)
        });
    }
}

/// Imports until some rows are written, lets `trouble` happen, and waits for the import's end, whatever it is.
fn import_into(site: &ProvenanceSite, rows: &str, dice: &mut Dice, trouble: impl FnOnce()) {
    let written = || site.site().figure("provenance/writer", "written");
    let goal = written() + 400 + dice.below(4_000) as u64;
    std::thread::scope(|scope| {
        let import = scope.spawn(|| site.site().cli(&["provenance", "import", "--resume", rows]));
        eventually("some rows to be stored", || import.is_finished() || written() > goal);
        trouble();
        import.join().expect("an import that ends");
    });
}

#[test]
fn rows_come_through_the_broker_into_postgresql() {
    let house = House::new("with-path");
    let instance = house.start();
    house.site.ask(&["import", &house.rows]);
    assert_eq!(house.site.count("content"), u64::from(ROWS));
    let origin = "6ceea27924608c9ae55f8592999de10cf8e00eb7";
    let more = house
        .site
        .file([json!({"add": "origin", "url": "https://a/b"}), json!({"add": "location", "path": "a"})]);
    assert_eq!(house.site.ask(&["import", &more])["stored"], json!(2));
    assert_eq!(house.site.ask(&["get", "origin", origin]), json!({ origin: "https://a/b" }));
    assert!(instance.terminate().success(), "{}", house.site.site().log());
}

/// In place of the original's server: its variable, its file, nothing else.
#[test]
fn the_originals_configuration_file_is_enough() {
    let house = House::new("without-path");
    let site = house.site.site();
    let file = site.path().join("swh.yml");
    let stand_in = |text: &str| {
        std::fs::write(&file, text).expect("write a file");
        let mut command = site.bare_command();
        command.args(["as", "swh-provenance-server"]);
        command.env("SWH_CONFIG_FILENAME", &file).env("RUNTIME_DIRECTORY", site.path());
        Instance::spawn(command)
    };
    assert_eq!(stand_in("provenance: {}\n").wait().code(), Some(78));
    assert!(site.log().contains("Missing 'provenance.rabbitmq' configuration"), "{}", site.log());
    let (url, dsn) = (house.rabbit.url(), &house.dsn);
    let instance = stand_in(&format!(
        "provenance:\n  rabbitmq:\n    url: {url}\n    storage_config: {{cls: postgresql, db: '{dsn}'}}\n"
    ));
    eventually("the endpoint to answer", || site.cli(&["tree"]).0 == 0);
    house.serving();
    house.site.ask(&["import", &house.rows]);
    assert_eq!(house.site.count("content"), u64::from(ROWS));
    assert!(instance.terminate().success(), "{}", site.log());
}

#[test]
fn a_kill_of_the_server_the_broker_or_the_database_loses_nothing() {
    seeds(ROUNDS, 2, |seed| {
        let mut dice = Dice::new(seed);
        let mut house = House::new(["with-path", "with-path-denormalized"][dice.below(2)]);
        let mut instance = house.start();
        let first = dice.below(3);
        for kind in (0..3).map(|turn| (first + turn) % 3) {
            let House { rabbit, postgres, site, rows, .. } = &mut house;
            match kind {
                0 => {
                    import_into(site, rows, &mut dice, || instance.kill_nine());
                    instance = house.start();
                }
                1 => {
                    import_into(site, rows, &mut dice, || rabbit.kill_nine());
                    rabbit.start_again();
                }
                _ => {
                    import_into(site, rows, &mut dice, || postgres.kill_nine());
                    postgres.start_again();
                }
            }
            house.judge();
        }
        house.complete();
        assert!(instance.terminate().success(), "{}", house.site.site().log());
    });
}
