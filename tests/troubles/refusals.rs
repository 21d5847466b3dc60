//! Servers that answer with a refusal: the cause has the server's words, and the help is the command for this
//! reason, which the test runs where it can.

use std::{fs, time::Instant};

use orchestrator_harness::{
    Ermrest, Faktory, Instance, LEASED_RULE, MongoDb, Postgres, PrintedCause, Rabbit, Redis, TestEnv,
    eventually, free_port, psql,
};

use crate::{
    BINARY,
    answer::{Trouble, await_cured, run_command, run_help},
};

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
    fn start<'a>(&self, env: &'a TestEnv) -> Refused<'a> {
        let Self { queue, broker, redis, mongodb, faktory, catalog } = self;
        let directory = env.path().display();
        let text = format!(
            "[links]\nretry_max_ms = 200\n[admin]\nlisten = \"\"\nunix_socket = \"{directory}/admin.sock\"\n\
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
        let began = Instant::now();
        let instance = Instance::spawn(command);
        eventually("the endpoint", || env.snapshot().is_some());
        Refused { env, began, _instance: instance }
    }
}

/// An instance that servers refuse.
struct Refused<'a> {
    env: &'a TestEnv,
    began: Instant,
    _instance: Instance,
}

impl Refused<'_> {
    /// Waits for a cause of a branch with `text`, and checks that its help begins with `help`.
    fn assert_cause(&self, situation: &'static str, branch: &str, text: &str, help: &str) -> PrintedCause {
        let cause = Trouble::began_at(self.began, situation).shows(self.env, branch, text);
        assert!(cause.help.starts_with(help), "{branch}: {cause:?}");
        assert!(!cause.text.contains(PASSWORD), "{cause:?}");
        assert!(!cause.text.contains(" is down"), "the server answers: {cause:?}");
        cause
    }
}

/// Erlang expression that sets the password of the user `guest`.
fn change_password(password: &str) -> String {
    format!("rabbit_auth_backend_internal:change_password(<<\"guest\">>, <<\"{password}\">>, <<\"test\">>)")
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
    let refused = addresses.start(&env);
    let at = format!("PostgreSQL at 127.0.0.1:{} refuses: ", postgres.port());
    let grant = "as the owner of the database or a superuser: ";
    let queue = refused.assert_cause("PostgreSQL: the role may not create the schema", "queue", &at, grant);
    assert!(queue.text.contains("permission denied for database refusing"), "{queue:?}");
    let of_broker = format!("RabbitMQ at {}:{} refuses: ", rabbit.host(), rabbit.port());
    let add = "rabbitmqctl add_vhost prod; ";
    let cause = refused.assert_cause("RabbitMQ: an unknown virtual host", "provenance", &of_broker, add);
    assert!(cause.text[of_broker.len()..].starts_with("NOT_ALLOWED - vhost prod not found"), "{cause:?}");
    let needs = "Redis requires a password";
    refused.assert_cause(
        needs,
        "ingester",
        "refuses: NOAUTH",
        "write redis://:PASSWORD@HOST:PORT into a file",
    );
    let server = format!(
        "127.0.0.1:{} is a server of no replica set, but the address names the replica set rs0",
        mongodb.port()
    );
    let set = "MongoDB: another replica set, or none";
    refused.assert_cause(set, "producer", &server, "correct replicaSet in the uri");
    let needs = "Faktory: a wrong or missing password";
    let cause =
        refused.assert_cause(needs, "producer", "it requires a password", "write the password into a file");
    assert!(cause.help.contains("producer.faktory.password_file"), "{cause:?}");
    let expired = "ERMrest: the token or the session has expired";
    refused.assert_cause(expired, "catalog", "401", "put a valid token into ");
    // What the helps say.
    psql(&admin, queue.help.strip_prefix(grant).expect("a statement")).expect("a valid statement");
    rabbit.create_vhost("prod");
    fs::write(env.path().join("token"), "good").expect("write a file");
    for (branch, text) in [("queue", at), ("provenance", of_broker), ("catalog", "401".to_owned())] {
        await_cured(&env, branch, &text);
    }
    drop(refused);

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
    let refused = addresses.start(&env);
    let (many, sessions) =
        ("too many connections for role", "SELECT usename, application_name, count(*) FROM");
    let queue = refused.assert_cause("PostgreSQL: too many connections", "queue", many, sessions);
    let wrong = "correct user and password in the url";
    refused.assert_cause("RabbitMQ: a wrong password", "provenance", "refuses: ACCESS_REFUSED", wrong);
    let wrong = "correct user and password in redis_url";
    refused.assert_cause("Redis: a wrong password", "ingester", "refuses: ", wrong);
    let missing = "collection arborescent_stencils of database tanglenomicon has no document config";
    let insert = "in mongosh, database tanglenomicon: db.arborescent_stencils.insertOne({_id: \"config\"";
    refused.assert_cause("MongoDB has no configuration document", "producer", missing, insert);
    let correct = "correct the file that producer.faktory.password_file names";
    refused.assert_cause(needs, "producer", "Invalid password", correct);
    let unknown = Trouble::began_at(refused.began, "the name of a server has no address");
    let cause = unknown.shows_first(&env, "catalog", "lookup");
    assert!(cause.help.starts_with("getent hosts nowhere.invalid; "), "{cause:?}");
    assert_eq!(run_help(&env, &cause.help), "", "the name is unknown there, too");
    psql(&admin, queue.help.split("; ").next().expect("a statement")).expect("a valid statement");
    psql(&admin, "ALTER ROLE few CONNECTION LIMIT -1; GRANT CREATE ON DATABASE refusing TO few")
        .expect("SQL");
    rabbit.eval(&change_password(PASSWORD));
    let set = format!("redis-cli -a {PASSWORD} -p {} CONFIG SET requirepass wrong", redis.port());
    run_command(&env, &set);
    for (branch, text) in [("queue", many), ("provenance", "ACCESS_REFUSED"), ("ingester", "refuses: ")] {
        await_cured(&env, branch, text);
    }
    rabbit.eval(&change_password("guest"));
    drop(refused);

    addresses.queue = admin.replace("refusing", "missing");
    let refused = addresses.start(&env);
    let create = "CREATE DATABASE missing OWNER postgres";
    let cause =
        refused.assert_cause("PostgreSQL: the database is missing", "queue", "does not exist", create);
    let statement = cause.help.split(", or").next().expect("a statement");
    psql(&admin, statement).expect("a valid statement");
    await_cured(&env, "queue", "refuses");
}

#[test]
fn a_schema_of_another_role_is_named_with_the_statement_that_helps() {
    let server = Postgres::shared();
    let admin = server.create_database("schema_of_another_role");
    let roles =
        "CREATE ROLE theirs LOGIN; CREATE ROLE \"our role\" LOGIN; CREATE SCHEMA empty AUTHORIZATION theirs;
        CREATE SCHEMA used AUTHORIZATION theirs";
    server.script(&admin, roles);
    let site = |role: &str, schema: &str| {
        let dsn = admin.replace("postgres@", &format!("{role}@"));
        let site = TestEnv::new(BINARY).set("queue.store=postgres").set(&format!("queue.postgres.dsn={dsn}"));
        site.set(&format!("queue.postgres.schema={schema}"))
    };
    let is_up = |site: &TestEnv| site.link("queue/queue_store").state == "up";
    // Neither role may create the schema of the functions.
    let create_functions = |site: &TestEnv, owner: &str| {
        let found = site.first_cause("queue", "permission denied for database");
        let (_, statement) = found.help.rsplit_once("superuser: ").expect("a statement");
        assert!(statement.starts_with("CREATE SCHEMA ") && statement.ends_with(owner), "{found:?}");
        server.script(&admin, statement);
        eventually("the queue", || is_up(site));
    };
    let of_theirs = site("theirs", "used");
    let _used = of_theirs.start();
    create_functions(&of_theirs, " AUTHORIZATION theirs");
    let statements = [
        ("empty", "GRANT USAGE, CREATE ON SCHEMA empty TO \"our role\""),
        ("used", "GRANT theirs TO \"our role\""),
    ];
    for (schema, statement) in statements {
        let ours = site("our%20role", schema);
        let trouble = Trouble::begins("PostgreSQL: the schema belongs to another role");
        let _instance = ours.start();
        let found =
            trouble.shows_first(&ours, "queue", &format!("the schema {schema} belongs to the role theirs"));
        assert!(found.text.contains(&format!("and our role may not use it: {statement}, or")), "{found:?}");
        server.script(&admin, statement);
        if schema == "empty" {
            create_functions(&ours, " AUTHORIZATION \"our role\"");
        }
        eventually("the queue", || is_up(&ours));
    }
}
