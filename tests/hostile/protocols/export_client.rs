//! HTTP/1.1, as a client that reads exports of the admin endpoint.

use std::io;

use crate::{
    generator::{INVALID_UTF8, Protocol},
    protocols::HttpClient,
    wire::Wire,
};

const EXPORT: &str = "/v1/provenance/locations";
const HTTP: HttpClient = HttpClient { small: "GET /v1/provenance/locations", body: "", posts: EXPORT };
/// Length of a text in a request line, in bytes; three times as long when it is encoded.
const TEXT_MAX: usize = 20_000;

/// A client of exports. After its greeting it has an export under way, of which it reads the first piece
/// only.
pub(crate) struct ExportClient;

fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn percent_encoded(text: &[u8]) -> String {
    text.iter().map(|byte| format!("%{byte:02x}")).collect()
}

impl Protocol for ExportClient {
    fn answers_requests(&self) -> bool {
        HTTP.answers_requests()
    }

    fn greet(&self, wire: &mut Wire) -> io::Result<Vec<u8>> {
        HTTP.greet(wire)
    }

    fn announcement(&self, request: &[u8]) -> Vec<u8> {
        HTTP.announcement(request)
    }

    /// A name, or a list of arguments, without an end.
    fn endless(&self, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
        match request.is_empty() {
            true => (b"GET /v1/provenance/".to_vec(), b"locations".to_vec()),
            false => {
                let head = b"GET /v1/provenance/relations?relation=content_in_revision".to_vec();
                (head, b"&id=20329687bb9c1231a7e05afe86160343ad49b494".to_vec())
            }
        }
    }

    /// The name of an export and the value of an argument.
    fn error(&self, _request: &[u8], text: &[u8]) -> Vec<u8> {
        let text = percent_encoded(&text[..text.len().min(TEXT_MAX)]);
        [get(&format!("/v1/provenance/{text}")), get(&format!("/v1/provenance/entities?kind={text}"))]
            .concat()
    }

    fn wrong_types(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let ids = "&id=20329687bb9c1231a7e05afe86160343ad49b494".repeat(1_001);
        let mut messages: Vec<_> = [
            "/v1/provenance/relations",
            "/v1/provenance/relations?relation=content",
            "/v1/provenance/relations?relation=content_in_revision&reverse=true",
            "/v1/provenance/relations?relation=content_in_revision&reverse=7&id=x",
            "/v1/provenance/relations?relation=content_in_revision&relation=content_in_revision",
            "/v1/provenance/entities?kind=content&kind=revision",
            "/v1/provenance/locations?limit=18446744073709551616",
            "/v1/provenance/locations?%00=%0a",
            "/v1/provenance/locations/locations",
            "/v1/provenance//locations",
            "/v1/orchestrator/provenance/writer/locations",
            "/v1/provenance/relations?relation=content_in_revision&id=20329687bb9c1231a7e05afe86160343ad49b494",
        ]
        .map(get)
        .to_vec();
        messages.push(get(&format!("/v1/provenance/relations?relation=content_in_revision{ids}")));
        messages.extend(HTTP.wrong_types(request));
        messages
    }

    fn invalid_utf8(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let encoded = percent_encoded(INVALID_UTF8);
        let mut messages = vec![
            get(&format!("/v1/provenance/{encoded}")),
            get(&format!("/v1/{encoded}/locations")),
            get(&format!("/v1/provenance/entities?kind={encoded}")),
            get(&format!("/v1/provenance/entities?{encoded}=content")),
            [b"GET /v1/provenance/entities?kind=", INVALID_UTF8, b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]
                .concat(),
        ];
        messages.extend(HTTP.invalid_utf8(request));
        messages
    }

    fn small(&self, request: &[u8]) -> Vec<u8> {
        HTTP.small(request)
    }
}
