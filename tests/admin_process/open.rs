//! `orchestrator open`: the address of the console.

use orchestrator_harness::{TestEnv, http_tcp};
use serde_json::Value;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

#[test]
fn the_printed_address_serves_the_console() {
    let env = env().set("admin.listen=127.0.0.1:0");
    let _instance = env.start();
    let (code, url, err) = env.cli(&["open"]);
    assert_eq!(code, 0, "{err}");
    let address =
        url.strip_prefix("http://").and_then(|rest| rest.strip_suffix("/\n")).expect("a URL and a line end");
    let page = http_tcp(address.parse().expect("IP:PORT"), "GET", "/", &[], "");
    assert!(page.status == 200 && page.head.contains("text/html"), "{}", page.head);
    let (_, same, _) = env.cli(&["open", "--url", &format!("http://{address}")]);
    assert_eq!(same, url, "over TCP");
    let (_, json, _) = env.cli(&["open", "--json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json, serde_json::json!({ "url": url.trim_end() }));
}

#[test]
fn an_instance_with_only_a_socket_or_none_has_no_address() {
    let env = env();
    let (code, out, err) = env.cli(&["open"]);
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    let _instance = env.start();
    let (code, out, err) = env.cli(&["open"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("admin.listen") && err.contains("ssh -L"), "{err}");
}

#[test]
fn a_console_that_asks_for_a_token_has_an_address_without_one() {
    let env = env();
    let tokens = env.path().join("tokens");
    std::fs::write(&tokens, "viewer v secret-token-of-a-viewer\n").expect("a file");
    std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("it is ours");
    let env = env.set("admin.listen=127.0.0.1:0").set(&format!("admin.tokens_file={}", tokens.display()));
    let _instance = env.start();
    let (_, url, err) = env.cli(&["open"]);
    assert!(url.starts_with("http://127.0.0.1:"), "{url} {err}");
    let (code, same, err) = env.cli(&["open", "--url", url.trim_end()]);
    assert_eq!((code, same), (0, url), "{err}");
}
