//! Readiness of a provenance server: it requires a consumer on each of the 160 queues. Missing ones are named
//! after 60 s.

use std::{
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use orchestrator_harness::{HttpReply, Instance, ProvenanceEnv, Rabbit, eventually, http};

/// Time after which missing queues are named.
const REPORT_AFTER: Duration = Duration::from_secs(60);

fn readyz(env: &ProvenanceEnv) -> HttpReply {
    http(&env.base().admin_socket(), "GET", "/readyz", &[], "")
}

/// Next sd_notify message of the process, or None after `limit`.
fn next_notice(manager: &UnixDatagram, limit: Duration) -> Option<String> {
    manager.set_read_timeout(Some(limit)).expect("set a time-out");
    let mut bytes = [0; 4096];
    let length = manager.recv(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

#[test]
fn readiness_requires_a_consumer_for_every_queue() {
    let mut rabbit = Rabbit::stopped();
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.transport=amqp")
        .set(&format!("provenance.amqp.url={}", rabbit.url()));
    let notify = env.base().path().join("notify.sock");
    let manager = UnixDatagram::bind(&notify).expect("bind a datagram socket");
    let mut command = env.command();
    command.env("NOTIFY_SOCKET", &notify);
    let begun = Instant::now();
    let instance = Instance::spawn(command);
    eventually("the endpoint to answer", || env.base().cli(&["tree"]).0 == 0);
    let answer = readyz(&env);
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("failed: orchestrator/provenance/amqp: "), "{}", answer.body);

    let notice = next_notice(&manager, 2 * REPORT_AFTER).expect("a notice");
    assert!(begun.elapsed() >= REPORT_AFTER, "{notice} after {:?}", begun.elapsed());
    assert!(notice.starts_with("STATUS=waiting for ") && notice.contains("EXTEND_TIMEOUT_USEC="), "{notice}");
    let missing = "160 of 160 queues have no consumer: content_add.unknown.[0-f], ";
    eventually("the queues to be named", || readyz(&env).body.contains(missing));
    // The log line follows the status.
    eventually("the log to name them", || env.base().log().contains(missing));

    rabbit.start_again();
    loop {
        let notice = next_notice(&manager, REPORT_AFTER).expect("a notice");
        if notice.starts_with("READY=1") {
            break;
        }
        assert!(notice.starts_with("STATUS=waiting for "), "{notice}");
    }
    let queues = rabbit.queues("/", "consumers");
    let consumed =
        queues.iter().filter(|(name, consumers)| name.contains("_add.") && *consumers == 1).count();
    assert_eq!(consumed, 160, "{queues:?}");
    assert_eq!(readyz(&env).status, 200);
    assert!(instance.terminate().success(), "{}", env.base().log());
}

#[test]
fn the_embedded_transport_is_ready_at_once() {
    let env = ProvenanceEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = env.start();
    eventually("readiness", || readyz(&env).status == 200);
    assert!(instance.terminate().success(), "{}", env.base().log());
}
