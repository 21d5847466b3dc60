//! Servers that are there and do not serve: alarms of a broker, and a session that has expired.

use std::{fs, thread};

use orchestrator_harness::{
    CatalogEnv, Ermrest, FULL_RULE, Faktory, MongoDb, ProducerEnv, ProvenanceEnv, Rabbit, Tanglenomicon,
    sha1_of,
};
use serde_json::json;

use crate::{
    BINARY,
    answer::{Trouble, await_cured},
};

#[test]
fn both_alarms_of_a_broker_are_named_in_its_words() {
    let rabbit = Rabbit::start();
    let env = ProvenanceEnv::new(BINARY)
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url={}", rabbit.url()));
    let _instance = env.start();
    await_cured(env.base(), "provenance", "");
    let alarms = [
        (
            "low on disk",
            "rabbit_disk_monitor:set_disk_free_limit(\"100000GB\")",
            "rabbit_disk_monitor:set_disk_free_limit(\"1MB\")",
            "isk",
        ),
        (
            "low on memory",
            "vm_memory_monitor:set_vm_memory_high_watermark(0.00001)",
            "vm_memory_monitor:set_vm_memory_high_watermark(0.9)",
            "emory",
        ),
    ];
    for (number, (reason, raise, clear, shown)) in alarms.into_iter().enumerate() {
        // A broker tells its alarm to those that publish.
        let id = sha1_of(0, u32::try_from(number).expect("few"));
        let rows = env.file([json!({ "add": "content", "id": id })]);
        let trouble = Trouble::begins("the disk or memory alarm of a broker");
        rabbit.eval(raise);
        thread::scope(|scope| {
            let import = scope.spawn(|| env.base().cli(&["provenance", "import", &rows]).0);
            let text = format!("takes no messages: {reason}");
            let cause = trouble.shows_first(env.base(), "provenance", &text);
            let command = cause.help.split("; ").next().unwrap_or_default();
            assert_eq!(command, "rabbitmq-diagnostics alarms");
            let printed = rabbit.run(command);
            assert!(printed.contains(shown), "{printed}");
            rabbit.eval(clear);
            assert_eq!(import.join().expect("its end"), 0);
        });
        await_cured(env.base(), "provenance", "takes no messages");
    }
}

#[test]
fn a_session_that_has_expired_is_named_with_the_way_to_log_in() {
    let server = Ermrest::start(&["--token", "good"]);
    let site = CatalogEnv::new(BINARY, &server).rule(FULL_RULE);
    let file = site.base().path().join("credential.json");
    let log_in = |cookie: &str| {
        let text = json!({ "localhost": { "cookie": format!("webauthn={cookie}") } }).to_string();
        fs::write(&file, text).expect("write the credentials");
    };
    log_in("expired");
    let site = site.key(&format!("credential_file = {:?}", file.display().to_string()));
    let trouble = Trouble::begins("ERMrest: the token or the session has expired");
    let _instance = site.start();
    let cause = trouble.shows_first(site.base(), "catalog", "401");
    let help = format!("log in again with deriva-auth, or correct {}", file.display());
    assert!(cause.help.starts_with(&help), "{cause:?}");
    log_in("good");
    await_cured(site.base(), "catalog", "401");
}

#[test]
fn each_server_of_a_producer_is_named_with_what_it_refuses() {
    let (database, queue) = (MongoDb::start(), Faktory::start(&[]));
    Tanglenomicon::small().fill(&database);
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let site = site.set(&format!("producer.mongodb.uri={}/?replicaSet=rs0", database.uri()));
    let trouble = Trouble::begins("MongoDB: another replica set, or none");
    let instance = site.start();
    let cause = trouble.shows_first(site.base(), "producer", "but the address names the replica set rs0");
    assert!(cause.help.starts_with("correct replicaSet in the uri, or remove it; "), "{cause:?}");
    drop((instance, queue));

    let queue = Faktory::start(&["--password", "secret1"]);
    let site = ProducerEnv::new(BINARY, &database, &queue);
    let file = site.base().path().join("password");
    fs::write(&file, "wrong").expect("write a file");
    let site = site.set(&format!("producer.faktory.password_file={}", file.display()));
    let trouble = Trouble::begins("Faktory: a wrong or missing password");
    let _instance = site.start();
    let cause = trouble.shows_first(site.base(), "producer", "Invalid password");
    assert!(
        cause.help.starts_with("correct the file that producer.faktory.password_file names"),
        "{cause:?}"
    );
    fs::write(&file, "secret1").expect("what the help says");
    await_cured(site.base(), "producer", "Invalid password");
}
