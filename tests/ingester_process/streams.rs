//! Two streams in one ingester, each with an upstream of its own; and a controller of 0.0.4, whose updates name no streams.

use std::net::TcpListener;

use orchestrator_harness::{IngesterSite, ZmtpPeer, eventually};
use serde_json::{Value, json};

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

fn image(peer: &mut ZmtpPeer, frame: u32, pixels: &[u8]) {
    let head = format!(
        r#"{{"htype":"image","frame":{frame},"shape":[1],"type":"uint8","compression":"none","msg_number":{}}}"#,
        frame + 1
    );
    peer.send(&[head.as_bytes(), pixels]).expect("the ingester takes it");
}

#[test]
fn an_event_has_one_item_of_each_of_its_streams_in_one_message() {
    let [one, other] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let url = |listener: &TcpListener| format!("tcp://{}", listener.local_addr().expect("its address"));
    let second = format!(
        "[[ingester.stream]]\nname = \"pilatus\"\nsource = \"ZmqPullSingleIngester\"\nupstream_url = \"{}\"",
        url(&other)
    );
    let site = IngesterSite::new(env!("CARGO_BIN_EXE_orchestrator"), &url(&one), &second);
    let _instance = site.start();
    let controller = site.controller();
    assert_eq!(
        controller.presence().expect("it is there")["streams"],
        json!(["pilatus", "eiger"]),
        "as the file has them"
    );
    controller
        .update(&json!({"mapping_uuid": MAPPING, "parameters_version": {}, "target_parameters_hash": null}));
    eventually("the mapping is taken", || controller.is_taken(MAPPING));
    let mut sources =
        [one, other].map(|listener| ZmtpPeer::accept(&listener, "PUSH").expect("both are dialled"));
    for (source, pixels) in sources.iter_mut().zip([b"e", b"p"]) {
        source
            .send(&[br#"{"htype":"header","msg_number":0,"filename":"x"}"#])
            .expect("the ingester takes it");
        (0..3).for_each(|frame| image(source, frame, pixels));
    }
    controller.assign(
        MAPPING,
        &[
            (0, json!({"eiger": ["w"], "pilatus": ["w"]})),
            (1, json!({"pilatus": ["w"]})),
            (2, json!({"pilatus": ["w"], "eiger": ["w"]})),
        ],
    );
    let mut worker = ZmtpPeer::dial(site.port, "DEALER", "w").expect("it listens");
    let mut event = || {
        let parts = worker.receive().expect("the event");
        let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
        // Frames of streams, as a worker slices them: in the order of the text.
        let text = String::from_utf8_lossy(&parts[0]).into_owned();
        let mut told: Vec<_> = header["streams"].as_object().expect("streams").iter().collect();
        told.sort_by_key(|(name, _)| text.find(name.as_str()));
        let mut at = 1;
        let mut streams = Vec::new();
        for (name, told) in told {
            let length = told["length"].as_u64().expect("a length") as usize;
            streams.push((name.clone(), parts[at..at + length].to_vec()));
            at += length;
        }
        assert_eq!(at, parts.len());
        streams
    };
    assert_eq!(event().len(), 2);
    let single = event();
    assert_eq!((single[0].0.as_str(), single[0].1[1].as_slice()), ("pilatus", &b"p"[..]));
    let both = event();
    let number =
        |frames: &[Vec<u8>]| serde_json::from_slice::<Value>(&frames[0]).expect("JSON")["frame"].clone();
    let found: Vec<_> =
        both.iter().map(|(name, frames)| (name.as_str(), number(frames), frames[1].clone())).collect();
    // The stream that was left out of the event before is a frame behind.
    assert_eq!(found, [("pilatus", json!(1), b"p".to_vec()), ("eiger", json!(0), b"e".to_vec())]);
}
