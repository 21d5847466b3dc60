//! Addresses of a server that are wrong, or whose name has several.

use std::{fs, path::Path, time::Instant};

use orchestrator_harness::{IngesterEnv, Instance, Postgres, TestEnv, eventually};

use crate::{
    BINARY,
    answer::{Trouble, await_cured, run_command, run_help},
};

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

/// Gives an ingester another address for Redis.
fn use_address(env: &IngesterEnv, redis_url: &str) {
    let file = env.base.path().join("ingester.toml");
    let text = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, text.replace(&env.redis.url(), redis_url)).expect("write the configuration");
}

/// Prelude of a shell: what it starts has another `/etc/hosts`, in a mount namespace of its own.
fn with_hosts(directory: &Path, hosts: &str) -> String {
    let file = directory.join("hosts");
    fs::write(&file, hosts).expect("write a file");
    format!(
        "[ \"$IN\" ] || {{ user=; [ $(id -u) = 0 ] || user=--map-root-user; IN=1 exec unshare --mount $user \
         sh -c 'mount --bind {} /etc/hosts; exec \"$0\" \"$@\"' \"$0\" \"$@\"; }}",
        file.display()
    )
}

#[test]
fn the_address_of_another_server_is_named() {
    let postgres = Postgres::shared();
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    use_address(&env, &format!("redis://127.0.0.1:{}/0", postgres.port()));
    let trouble = Trouble::begins("the address of Redis is that of another server");
    let _instance = env.spawn();
    eventually("the endpoint", || env.base.snapshot().is_some());
    let cause = trouble.shows_first(&env.base, "ingester", &format!(":{}", postgres.port()));
    let command = format!("redis-cli -h 127.0.0.1 -p {} PING", postgres.port());
    assert!(cause.help.starts_with(&format!("{command}; ")), "{cause:?}");
    assert!(!run_help(&env.base, &cause.help).contains("PONG"), "{cause:?}");
}

/// Runs a command of Redis at the loopback address of version 6.
fn ask(env: &IngesterEnv, words: &str) -> String {
    run_command(&env.base, &format!("redis-cli -h ::1 -p {} {words}", env.redis.port()))
}

#[test]
fn a_server_at_one_of_the_addresses_of_its_name_is_reached() {
    let base = TestEnv::new(BINARY);
    let prelude = with_hosts(base.path(), "127.0.0.1 localhost\n::1 localhost\n");
    let env = IngesterEnv::with_source(base.shell(&prelude), "stins", "tcp://127.0.0.1:1", "");
    use_address(&env, &format!("redis://localhost:{}/0", env.redis.port()));
    env.redis.command(&["CONFIG", "SET", "bind", "127.0.0.1 ::1"]);
    let _instance = env.start();
    env.controller().start_mapping(MAPPING, &[]);
    let trouble = Trouble::begins("a server listens at one of the addresses of its name");
    env.redis.command(&["CONFIG", "SET", "bind", "::1"]);
    ask(&env, "CLIENT KILL TYPE normal");
    eventually("a connection", || ask(&env, "CLIENT LIST").contains("addr=[::1]:"));
    eventually("the link", || env.base.link("ingester/eiger-ingester/redis").state == "up");
    eventually("no cause", || env.base.causes("ingester").is_empty());
    trouble.print("nothing: it connects", "-", &env.base.why("ingester"));
}

#[test]
fn a_server_at_another_address_than_the_given_one_is_down() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    env.redis.command(&["CONFIG", "SET", "bind", "::1"]);
    let trouble = Trouble::begins("a server listens at `::1` only, and the address is `127.0.0.1`");
    let _instance = env.spawn();
    eventually("the endpoint", || env.base.snapshot().is_some());
    let cause = trouble.shows_first(&env.base, "ingester", "is down: ");
    assert!(cause.text.contains("Connection refused"), "{cause:?}");
    assert!(run_help(&env.base, &cause.help).contains("Connection refused"), "{cause:?}");
    assert_eq!(ask(&env, "CONFIG SET bind '127.0.0.1 ::1'"), "OK\n");
    await_cured(&env.base, "ingester", "is down: ");
}

#[test]
fn a_name_without_an_address_is_named_with_its_own_command() {
    const SECTIONS: &str = r#"
[[hook]]
name = "failures"
on = "queue.failed"
url = "http://nowhere.invalid/failed"
[provenance]
transport = "amqp"
amqp.url = "amqp://nowhere.invalid"
"#;
    let env = TestEnv::new(BINARY).set("provenance.sqlite.path=provenance.db");
    let file = env.path().join("site.toml");
    fs::write(&file, SECTIONS).expect("write the configuration");
    env.write("f.1.txt", "alpha 0 1\n");
    let mut command = env.command();
    command.arg("--config").arg(&file);
    let began = Instant::now();
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    let unknown = Trouble::began_at(began, "the name of a server has no address");
    let broker = unknown.shows_first(&env, "provenance", "lookup address");
    env.first_cause("queue", "1 job waits");
    let mut worker = env.worker();
    let job = worker.ready();
    worker.done(job.attr_path(), 3);
    let webhook =
        Trouble::begins("the name of a server has no address").shows_first(&env, "hooks", "lookup address");
    for cause in [broker, webhook] {
        assert!(cause.help.starts_with("getent hosts nowhere.invalid; "), "{cause:?}");
        assert_eq!(run_help(&env, &cause.help), "", "the name is unknown there, too");
    }
}
