//! Requests as they appear on the wire.

use orchestrator_harness::Ermrest;
use serde_json::json;

use super::{
    fixture::*,
    scripted::{Scripted, reply},
};
use crate::service::{CatalogResponse, Get, RequestError, Service};

/// All bytes that CONTRACT CP01 keeps, including some that libraries normalise.
const PATHS: [&str; 8] = [
    "/entity/S:T/a=1;b=2&!(c::null::)",
    "/attribute/A:=S:T/x::geq::2026-11-20T12%3A42%3A13.9%2B00%3A00/$A/RID,out:=col,A:*@sort(RCT,RID::desc::)@after(1,::null::)?limit=5",
    "/attributegroup/Foo/RID,old:=state;new:=state,claimed_by",
    "/entity/Foo//state=any(a,b)",
    "/entity/Foo/../Foo/./state=%61%2f%2F",
    "/entity/Foo/a='b'*c+d~e|f^g?limit=1&limit=2&accept=text/csv;q=1",
    "/entity/Foo/(a)=(S:T:b)/!(x=1)/@before(",
    "/",
];

#[test]
fn paths_arrive_byte_for_byte() {
    let server = Scripted::start(|_, _| reply("200 OK", "[]\n"));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        for path in PATHS {
            assert_eq!(rows(get(&catalog, path).await), (None, vec![]));
            assert!(written(put(&catalog, path, json!([])).await).is_empty());
        }
    });
    let lines: Vec<String> =
        server.requests().iter().map(|request| request.lines().next().unwrap().to_owned()).collect();
    let wanted = |method: &str, path: &str| format!("{method} /ermrest/catalog/1{path} HTTP/1.1");
    let wanted: Vec<String> =
        PATHS.iter().flat_map(|path| [wanted("GET", path), wanted("PUT", path)]).collect();
    assert_eq!(lines, wanted);
}

#[test]
fn a_path_that_would_change_is_refused_and_not_sent() {
    let server = Scripted::start(|_, _| reply("200 OK", "[]\n"));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        for path in ["/entity/Foo#x", "/entity/F oo", "/entity/Foo\r\nHost: x", "/entity/é"] {
            let refused = get(&catalog, path).await;
            assert!(
                matches!(&refused, Err(RequestError::Rejected(text)) if text.contains("percent-encode")),
                "{refused:?}"
            );
        }
    });
    assert!(server.requests().is_empty());
}

#[test]
fn reads_and_writes_share_their_general_headers() {
    let server = Scripted::start(|_, _| reply("200 OK", "[]\n"));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        rows(get(&catalog, "/entity/Foo").await);
        let etag = "\"zcH==;*/*;2026-11-20 12:42:13.697683+00:00\"".to_owned();
        written(put_if(&catalog, "/entity/Foo", json!([{"id": 1}]), Some(etag)).await);
    });
    let requests = server.requests();
    let lines = |request: &str| -> Vec<String> { request.split("\r\n").skip(1).map(str::to_owned).collect() };
    let (get, put) = (lines(&requests[0]), lines(&requests[1]));
    let host = server.base().split('/').nth(2).unwrap().to_owned();
    assert!(get.contains(&format!("host: {host}")), "{get:?}");
    assert!(get.contains(&"accept: */*".to_owned()), "{get:?}");
    assert!(get.contains(&format!("user-agent: orchestrator/{}", env!("CARGO_PKG_VERSION"))), "{get:?}");
    let context = get.iter().find_map(|line| line.strip_prefix("deriva-client-context: ")).unwrap();
    let id =
        context.strip_prefix("{\"cid\":\"orchestrator\",\"wid\":\"").and_then(|id| id.strip_suffix("\"}"));
    assert!(
        id.is_some_and(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())),
        "{context}"
    );
    let only_put: Vec<&String> = put.iter().filter(|line| !get.contains(line)).collect();
    let wanted = [
        "content-type: application/json",
        "if-match: \"zcH==;*/*;2026-11-20 12:42:13.697683+00:00\"",
        "content-length: 10",
        "[{\"id\":1}]",
    ];
    assert_eq!(only_put.len(), wanted.len(), "{only_put:?}");
    assert!(wanted.iter().all(|line| put.contains(&(*line).to_owned())), "{put:?}");
    assert!(get.iter().all(|line| put.contains(line)), "{get:?} {put:?}");
}

#[test]
fn etags_make_writes_and_reads_conditional() {
    let server = Ermrest::start(&[]);
    server.insert_foo(3, "new");
    let others = server.log()["connections"].as_u64().unwrap();
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        let path = "/entity/Foo/state=new@sort(id)?limit=2";
        let (etag, found) = rows(get(&catalog, path).await);
        assert_eq!(found.len(), 2);
        let known = || Get { path: path.to_owned(), if_none_match: etag.clone() };
        let unchanged = CatalogResponse::NotModified { etag: etag.clone() };
        assert_eq!(catalog.get(known()).await, Ok(unchanged));
        let update = json!([{"id": 1, "state": "claimed"}]);
        let write = "/attributegroup/Foo/id;state";
        let rows_written = written(put_if(&catalog, write, &update, etag.clone()).await);
        assert_eq!(rows_written, [json!({"id": 1, "state": "claimed"})]);
        assert_eq!(
            put_if(&catalog, write, &update, etag.clone()).await,
            Err(RequestError::PreconditionFailed)
        );
        assert_eq!(rows(catalog.get(known()).await).1.len(), 2);
        assert_eq!((metric(&tree, "not_modified", None), metric(&tree, "precondition_failed", None)), (1, 1));
        assert_eq!(metric(&tree, "requests", Some("2xx")), 3);
        assert_eq!((metric(&tree, "requests", Some("3xx")), metric(&tree, "requests", Some("4xx"))), (1, 1));
        let timings = node(&tree).timings;
        let counts: Vec<(&str, u64)> =
            timings.iter().map(|timing| (timing.value.as_str(), timing.count)).collect();
        assert_eq!(counts, [("get", 3), ("put", 2)]);
    });
    assert_eq!((server.response_count("GET", 304), server.response_count("PUT", 412)), (1, 1));
    assert_eq!(
        server.log()["connections"],
        json!(others + 1),
        "one connection is enough for one request at a time"
    );
}

#[test]
fn an_answer_with_repeated_members_is_passed_on() {
    let body = "[{\"RID\":\"1\",\"id\":1,\"RID\":\"2\"}]\n";
    let server = Scripted::start(move |_, _| reply("200 OK", body));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        let (_, found) = rows(get(&catalog, "/entity/Foo").await);
        assert_eq!(found, [json!({"RID": "2", "id": 1})], "the last one counts");
    });
}
