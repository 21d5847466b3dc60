//! The block `session` of deriva's `config.json` (CONTRACT CF15), beside deriva's own reading of it.

use std::fs;

use orchestrator_harness::{Ermrest, deriva_session};
use serde_json::json;

use crate::{
    edge::{credentials::Source, session::Session},
    request_retries::Retries,
    service::RequestError,
    tests::http::fixture::*,
};

#[test]
fn the_block_is_read_as_the_original_reads_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.json");
    for (timeout, connect, read, factor, statuses, unverified) in [
        (json!([6, 63]), 2, 4, 1.0, json!([500, 502, 503, 504]), json!(["localhost"])),
        (json!([0.5, 20]), 0, 1, 0.25, json!([429]), json!(["localhost", "lab"])),
        (json!(7.5), 5, 0, 3.0, json!([]), json!(null)),
    ] {
        let mut config = json!({ "session": {
            "timeout": timeout, "retry_connect": connect, "retry_read": read, "retry_backoff_factor": factor,
            "retry_status_forcelist": statuses, "allow_retry_on_all_methods": false, "cookie_jar": "x",
        } });
        if !unverified.is_null() {
            config["session"]["bypass_cert_verify_host_list"] = unverified;
        }
        fs::write(&file, config.to_string()).expect("write");
        let original = deriva_session(&file);
        let ours = Session::of_file(&file).expect("a session");
        let shown = json!({
            "timeouts": [ours.connect.as_secs_f64(), ours.read.as_secs_f64()], "connect": ours.retries.connect,
            "read": ours.retries.read, "all": ours.retries.status, "factor": ours.retries.backoff_factor,
            "statuses": ours.retries.statuses, "unverified": ours.unverified_hosts,
        });
        let seconds =
            |value: &serde_json::Value| [value["timeouts"][0].as_f64(), value["timeouts"][1].as_f64()];
        assert_eq!(seconds(&shown), seconds(&original), "{original}");
        for key in ["connect", "read", "all", "factor", "statuses", "unverified"] {
            assert_eq!(shown[key], original[key], "{key}: {original}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.json");
    assert_eq!(Session::of_file(&file), None);
    for text in ["", "{}", "[]", "{\"session\": 1}", "{\"session\": {\"timeout\": []}}", "\u{0}"] {
        fs::write(&file, text).expect("write");
        assert_eq!(Session::of_file(&file), None, "{text}");
    }
}

#[test]
fn reads_are_retried_and_writes_are_not() {
    let server = Ermrest::start(&[]);
    let retries = Retries { connect: 0, read: 1, status: 2, backoff_factor: 0.1, statuses: vec![404, 500] };
    let (catalog, spec) = with(endpoint(&server.url()).retries(retries), Source::Anonymous);
    let asked = || server.requests().len();
    TestTree::run(spec, async |_tree| {
        for (code, attempts) in [(404, 3), (500, 3), (502, 1)] {
            server.set_faults(&json!({"storm": {"code": code, "count": 10}}));
            let before = asked();
            let answer = get(&catalog, "/entity/Foo?limit=1").await;
            assert!(matches!(answer, Err(RequestError::Unavailable(_))), "{code}: {answer:?}");
            assert_eq!(asked() - before, attempts, "{code}");
            let before = asked();
            let answer = put(&catalog, "/attributegroup/Foo/id;state", json!([])).await;
            // 404 says that nothing was written.
            let wanted = if code == 404 { "Unavailable" } else { "OutcomeUnknown" };
            assert!(format!("{answer:?}").contains(wanted), "{code}: {answer:?}");
            assert_eq!(asked() - before, 1, "{code}");
            server.set_faults(&json!({"calm": true}));
        }
        server.set_faults(&json!({"drop_get": 1}));
        assert!(get(&catalog, "/entity/Foo?limit=1").await.is_ok(), "one attempt was lost");
        server.set_faults(&json!({"storm": {"code": 500, "count": 2}}));
        assert!(get(&catalog, "/entity/Foo?limit=1").await.is_ok(), "the third attempt");
    });
}
