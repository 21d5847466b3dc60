//! Situations 14 to 19, and 26 for RabbitMQ: servers that do not answer, and a broker that is killed.

use orchestrator_harness::{TestEnv, eventually};

use crate::servers::{is_counted, is_unready_because, with_servers};

/// Waits until the first cause of `branch` is the frozen `server` at `port`, and checks it.
fn assert_named(env: &TestEnv, branch: &str, server: &str, port: u16) {
    let text = format!("{server} at ");
    let cause = env.first_cause(branch, &format!(":{port} has not answered for "));
    assert!(cause.text.starts_with(&text), "{cause:?}");
    assert!(cause.evidence.iter().any(|fact| fact.starts_with("no answer since ")), "{cause:?}");
    assert!(cause.help.contains(&port.to_string()), "{cause:?}");
    let causes = env.causes(branch);
    assert_eq!(causes.len(), 1, "one fault is one cause: {causes:#?}");
    for path in cause.affects.iter().filter(|path| !path.contains(" more")).chain([&cause.path]) {
        eventually("the metric", || is_counted(env, path, "unanswered"));
    }
    eventually("the same reason of unreadiness", || is_unready_because(env, &cause.path, &text));
}

fn await_none(env: &TestEnv) {
    for branch in ["provenance", "ingester", "producer", "catalog"] {
        eventually(&format!("no cause of {branch}"), || env.causes(branch).is_empty());
    }
}

#[test]
fn each_of_six_frozen_servers_is_the_only_cause_of_its_subsystem() {
    with_servers(true, |env, servers| {
        let rabbit = servers.rabbit.as_mut().expect("a broker");
        servers.postgres.freeze();
        servers.redis.freeze();
        servers.ermrest.freeze();
        servers.faktory.freeze();
        assert_named(env, "provenance", "PostgreSQL", servers.postgres.port());
        assert_named(env, "ingester", "Redis", servers.redis.port());
        assert_named(env, "catalog", "ERMrest", servers.ermrest.port());
        assert_named(env, "producer", "Faktory", servers.faktory.port());
        servers.postgres.thaw();
        servers.redis.thaw();
        servers.ermrest.thaw();
        servers.faktory.thaw();
        await_none(env);

        // The broker itself says why it confirms nothing.
        rabbit.eval("rabbit_disk_monitor:set_disk_free_limit(\"100000GB\")");
        let cause = env.first_cause("provenance", "takes no messages: low on disk");
        assert!(
            cause.text.starts_with(&format!("RabbitMQ at {}:{} ", rabbit.host(), rabbit.port())),
            "{cause:?}"
        );
        assert!(cause.help.starts_with("rabbitmq-diagnostics alarms; "), "{cause:?}");
        let link = env.link(&cause.path);
        assert_eq!((link.state.as_str(), link.reason.as_str()), ("down", "low on disk"));
        eventually("the metric", || is_counted(env, &cause.path, "broker_alarm"));
        rabbit.eval("rabbit_disk_monitor:set_disk_free_limit(\"1MB\")");
        await_none(env);

        rabbit.freeze();
        servers.mongodb.freeze();
        assert_named(env, "provenance", "RabbitMQ", rabbit.port());
        assert_named(env, "producer", "MongoDB", servers.mongodb.port());
        rabbit.thaw();
        servers.mongodb.thaw();
        await_none(env);

        rabbit.kill_nine();
        let address = format!("127.0.0.1:{}", rabbit.port());
        let cause = env.first_cause("provenance", &address);
        assert!(cause.text.starts_with("amqp to "), "{cause:?}");
        eventually("the metric", || is_counted(env, &cause.path, "link_down"));
        eventually("unreadiness", || is_unready_because(env, &cause.path, "amqp to "));
        rabbit.start_again();
        eventually("the broker to be no cause", || !env.why("provenance").contains(&address));
    });
}
