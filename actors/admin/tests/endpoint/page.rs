//! `GET /` and `/ui/{file}`: the files of the web console.

use orchestrator_admin::ProgramInfo;

use crate::site::{self, Site};

const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Runs `test` on a site that requires tokens and accepts none.
fn guarded<Fut: Future<Output = ()>>(test: impl FnOnce(Site) -> Fut) {
    let guard = |config: &mut orchestrator_admin::AdminConfig| {
        config.tokens_file = config.unix_socket.clone().unwrap().with_file_name("tokens");
        crate::access::write_tokens(&config.tokens_file, "");
    };
    site::run_with(guard, ProgramInfo::default(), test);
}

#[test]
fn the_page_and_its_files_are_public_and_nothing_else_is() {
    guarded(|site| async move {
        let page = site.get("/").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let files: Vec<&str> = page.body.split('"').filter(|part| part.starts_with("/ui/")).collect();
        assert!(!files.is_empty(), "{}", page.body);
        for file in files {
            let reply = site.get(file).await;
            assert_eq!(reply.status, 200, "{file}");
            assert_eq!(reply.header("content-security-policy"), Some(POLICY), "{file}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{file}");
        }
        for path in
            ["/v1/tree", "/v1/history", "/v1/info", "//", "/ui", "/index.html", "/ui/../v1/tree", "/ui/a/b"]
        {
            assert_eq!(site.get(path).await.status, 401, "{path}");
        }
        for path in ["/ui/nothing.js", "/ui/%2e%2e", "/ui/..%2Fv1%2Ftree"] {
            assert_eq!(site.get(path).await.error().0, 404, "{path}");
        }
        assert_eq!(site.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.error().0, 405);
    });
}

#[test]
fn an_unchanged_file_is_304() {
    site::run(|site| async move {
        let page = site.get("/").await;
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        let tag = page.header("etag").expect("a tag");
        let again = format!("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {tag}\r\n\r\n");
        let reply = site.send(&again).await;
        assert_eq!((reply.status, reply.body.as_str()), (304, ""));
        assert_eq!(reply.header("etag"), Some(tag));
        let other = "GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"other\"\r\n\r\n";
        assert_eq!(site.send(other).await.status, 200);
    });
}

#[test]
fn requests_from_other_sites_are_403() {
    site::run(|site| async move {
        for header in ["Host: evil.example", "Host: localhost\r\nOrigin: http://evil.example"] {
            let reply = site.send(&format!("GET / HTTP/1.1\r\n{header}\r\n\r\n")).await;
            assert_eq!(reply.error().0, 403, "{header}");
        }
        let reply = site.get("/v1/tree").await;
        assert_eq!(reply.header("content-security-policy"), Some(POLICY), "every response has the policy");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"));
    });
}
