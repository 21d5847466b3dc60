//! Servers that answer with a refusal: the cause has the server's words, and the help is the command for this reason, which the test runs
//! where it can.

use std::fs;

use orchestrator_harness::{
    Ermrest, Faktory, Instance, LEASED_RULE, MongoDb, Postgres, PrintedCause, Rabbit, Redis, TestEnv,
    eventually, free_port, psql, wait_for,
};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const PASSWORD: &str = "secret1";

/// Addresses of one instance with five subsystems.
struct Addresses {
    queue: String,
    broker: String,
    redis: String,
    mongodb: String,
    faktory: String,
    catalog: String,
}

impl Addresses {
    /// Starts an instance; its handlers and pushes never begin.
    fn start(&self, env: &TestEnv) -> Instance {
        let Self { queue, broker, redis, mongodb, faktory, catalog } = self;
        let directory = env.path().display();
        let text = format!(
            "[admin]\nlisten = \"\"\nunix_socket = \"{directory}/admin.sock\"\n\
             [queue]\nstore = \"postgres\"\npostgres.dsn = {queue:?}\ninput_dir = \"{directory}/fetchers\"\n\
             socket = \"{directory}/worker.sock\"\n\
             [provenance]\ntransport = \"amqp\"\namqp.{broker}\nsqlite.path = \"{directory}/provenance.db\"\n\
             [producer]\n{faktory}\nmongodb.uri = {mongodb:?}\n\
             [[ingester]]\nname = \"in\"\nlisten = \"127.0.0.1:{port}\"\n{redis}\n\
             spill_dir = \"{directory}\"\n\
             [[ingester.stream]]\nname = \"eiger\"\nsource = \"stins\"\nupstream_url = \"tcp://127.0.0.1:1\"\n\
             [[catalog]]\nname = \"lab\"\nbase = {catalog:?}\ntoken_file = \"{directory}/token\"\namqp = \"\"\n{LEASED_RULE}",
            port = free_port(),
        );
        let config = env.path().join("all.toml");
        fs::write(&config, text).expect("write the configuration");
        fs::write(env.path().join("token"), "wrong").expect("write a file");
        let mut command = env.bare_command();
        command.args(["run", "--config"]).arg(&config);
        let instance = Instance::spawn(command);
        eventually("the endpoint", || env.snapshot().is_some());
        instance
    }
}

/// Waits for a cause of a branch with `text`, and checks that its help begins with `help`. The producer has one for each server.
fn assert_cause(env: &TestEnv, branch: &str, text: &str, help: &str) -> PrintedCause {
    let is_it = |cause: &PrintedCause| cause.text.contains(text);
    let cause = wait_for(text, || env.causes(branch).into_iter().find(is_it));
    assert!(cause.help.starts_with(help), "{branch}: {cause:?}");
    assert!(!cause.text.contains(PASSWORD), "{cause:?}");
    assert!(!cause.text.contains(" is down"), "the server answers: {cause:?}");
    cause
}

#[test]
fn the_help_fits_the_reason_of_each_server() {
    let (postgres, rabbit) = (Postgres::shared(), Rabbit::shared());
    let admin = postgres.create_database("refusing");
    postgres.script(&admin, "CREATE ROLE guest LOGIN; CREATE ROLE few LOGIN CONNECTION LIMIT 0");
    let as_role = |role: &str| admin.replace("postgres@", &format!("{role}@"));
    let (redis, mongodb) = (Redis::start(), MongoDb::start());
    let faktory = Faktory::start(&["--password", PASSWORD]);
    let ermrest = Ermrest::start(&["--token", "good"]);
    redis.command(&["CONFIG", "SET", "requirepass", PASSWORD]);
    let env = TestEnv::new(BINARY);
    let mut addresses = Addresses {
        queue: as_role("guest"),
        broker: format!("url = {:?}", rabbit.url_of("prod")),
        redis: format!("redis_url = {:?}", redis.url()),
        mongodb: format!("{}/?replicaSet=rs0", mongodb.uri()),
        faktory: format!("faktory.url = {:?}", faktory.url()),
        catalog: ermrest.url(),
    };
    let instance = addresses.start(&env);
    let at = format!("PostgreSQL at 127.0.0.1:{} refuses: ", postgres.port());
    let grant = "as the owner of the database or a superuser: ";
    let cause = assert_cause(&env, "queue", &at, grant);
    assert!(cause.text.contains("permission denied for database refusing"), "{cause:?}");
    psql(&admin, cause.help.strip_prefix(grant).expect("a statement")).expect("a valid statement");
    eventually("the queue to have its tables", || {
        env.causes("queue").iter().all(|cause| !cause.text.contains(&at))
    });

    let at = format!("RabbitMQ at {}:{} refuses: ", rabbit.host(), rabbit.port());
    let cause = assert_cause(&env, "provenance", &at, "rabbitmqctl add_vhost prod; ");
    assert!(cause.text[at.len()..].starts_with("NOT_ALLOWED - vhost prod not found"), "{cause:?}");
    assert_cause(&env, "ingester", "refuses: NOAUTH", "write the password into redis_url");
    let server = format!(
        "127.0.0.1:{} is a server of no replica set, but the address names the replica set rs0",
        mongodb.port()
    );
    assert_cause(&env, "producer", &server, "correct replicaSet in the uri");
    let cause = assert_cause(&env, "producer", "it requires a password", "write it into a file");
    assert!(cause.help.contains("producer.faktory.password_file"), "{cause:?}");
    assert_cause(&env, "catalog", "401", "put a valid token into ");
    drop(instance);

    // An address with a password belongs into a file.
    let in_file = |key: &str, text: &str| {
        let file = env.path().join(key);
        fs::write(&file, text).expect("write a file");
        format!("{key} = {:?}", file.display().to_string())
    };
    addresses.queue = as_role("few");
    addresses.broker =
        in_file("url_file", &rabbit.url().replace("guest:guest", &format!("guest:{PASSWORD}")));
    addresses.redis = in_file("redis_url_file", &redis.url().replace("redis://", "redis://:wrong@"));
    addresses.mongodb = mongodb.uri();
    addresses.faktory += &format!("\nfaktory.{}", in_file("password_file", "wrong"));
    addresses.catalog = "http://nowhere.invalid/ermrest/catalog/1".to_owned();
    let instance = addresses.start(&env);
    assert_cause(
        &env,
        "queue",
        "too many connections for role",
        "SELECT usename, application_name, count(*) FROM pg_stat_activity",
    );
    assert_cause(&env, "provenance", "refuses: ACCESS_REFUSED", "correct user and password in the url");
    assert_cause(&env, "ingester", "refuses: ", "correct user and password in redis_url");
    assert_cause(
        &env,
        "producer",
        "collection arborescent_stencils of database tanglenomicon has no document config",
        "in mongosh tanglenomicon: db.arborescent_stencils.insertOne({_id: \"config\"",
    );
    assert_cause(
        &env,
        "producer",
        "Invalid password",
        "correct the file that producer.faktory.password_file names",
    );
    let cause = env.first_cause("catalog", "lookup");
    assert!(cause.help.starts_with("getent hosts nowhere.invalid; "), "{cause:?}");
    drop(instance);

    addresses.queue = admin.replace("refusing", "missing");
    let _instance = addresses.start(&env);
    let cause = assert_cause(&env, "queue", "does not exist", "CREATE DATABASE missing OWNER postgres");
    let statement = cause.help.split(", or").next().expect("a statement");
    psql(&admin, statement).expect("a valid statement");
    eventually("the queue to work", || {
        env.causes("queue").iter().all(|cause| !cause.text.contains("refuses"))
    });
}
