//! A hook reports gaps in the frames of a detector (`on = "ingester.gap"`).

use std::net::TcpListener;

use orchestrator_harness::{IngesterEnv, Webhook, ZmtpPeer, eventually};
use serde_json::json;

#[test]
fn missing_frames_of_a_stream_are_reported() {
    let source = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", source.local_addr().expect("its address"));
    let webhook = Webhook::start("/gaps", "204 Done");
    let env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &upstream, "");
    env.append(&format!("[[hook]]\nname = \"gaps\"\non = \"ingester.gap\"\nurl = \"{}\"\n", webhook.url));
    let _instance = env.start();
    env.controller().start_mapping("6277a4d0-975c-4dfe-97be-7f6d1d5a5c38", &["eiger"]);
    let mut peer = ZmtpPeer::accept(&source, "PUSH").expect("the ingester connects");
    peer.send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]).expect("a header");
    for frame in [0, 1, 5] {
        let number = frame + 1;
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[1,4],"type":"uint8","compression":"none","msg_number":{number}}}"#
        );
        peer.send(&[head.as_bytes(), &[7; 4]]).expect("a frame");
    }
    eventually("the gap to be reported", || !webhook.posts().is_empty());
    let post = webhook.posts().remove(0).body;
    assert_eq!(post["on"], "ingester.gap");
    assert_eq!(
        (&post["data"]["stream"], &post["data"]["missing_frames"]),
        (&json!("eiger"), &json!(3)),
        "{post}"
    );
}
