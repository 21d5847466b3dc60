//! Rules that start a program at each change and claim nothing.

use std::fs;

use orchestrator_harness::{CatalogEnv, Ermrest, Rabbit, deriva_python, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const HEADING: &str = "### A look_for_work as it is";
/// Changes that come at once.
const BURST: u32 = 20;

/// The function is that of the original's documentation, with the library from PyPI.
#[test]
fn the_function_on_the_page_runs_at_each_change() {
    let [function, program, rule] = super::page_blocks(HEADING)[..] else { panic!("three blocks") };
    let url = Rabbit::shared().create_vhost("notify-only");
    let server = Ermrest::start(&["--amqp", &url]);
    let site = CatalogEnv::new(BINARY, &server).notices(&url);
    let folder = site.base().path().display().to_string();
    let function =
        function.replace("\"http\", \"localhost\"", &format!("\"http\", \"localhost:{}\"", server.port()));
    fs::write(site.base().path().join("my_agent.py"), function).expect("write");
    // Each run leaves a line.
    let program = format!("{program}\nopen({folder:?} + \"/runs\", \"a\").write(\"run\\n\")\n");
    fs::write(site.base().path().join("look.py"), program).expect("write");
    let rule = rule.replace("python3", &deriva_python().display().to_string());
    let (_, rule) = rule.split_once("\n\n").expect("a catalog and a rule");
    let site = site.rule(&rule.replace("/opt/agent", &folder));
    let _instance = site.start();
    let runs = || fs::read_to_string(site.base().path().join("runs")).map_or(0, |text| text.lines().count());
    let polls = || site.rule_status("look")["polls"].as_u64();
    eventually("notices to come", || site.status()["notices"]["up"] == true);
    eventually("the first runs to end", || {
        site.rule_status("look")["phase"] == "idle" && polls() == Some(runs() as u64)
    });
    let before = runs();
    // Each write is a change of its own. `again` continues until five rows at a time have taken all.
    for id in 1..=BURST {
        server.insert("Foo", &json!([{ "id": id, "state": "actionable" }]), "");
    }
    eventually("all rows to be complete", || server.rows("Foo").iter().all(|row| row["state"] == "complete"));
    let of_burst = runs() - before;
    assert!(of_burst < BURST as usize, "the changes are coalesced: {of_burst} runs");
    let sent = server.requests();
    let by_us = |request: &&serde_json::Value| {
        request["headers"]["user-agent"].as_str().is_some_and(|agent| agent.starts_with("orchestrator"))
    };
    assert_eq!(sent.iter().filter(by_us).count(), 0, "the rule itself sends nothing");
}

#[test]
fn a_program_that_fails_runs_again_later_and_checks_name_it() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let file = site.base().path().join("fixed");
    let script = format!("cat >/dev/null; test -e {} || {{ echo no table >&2; exit 3; }}", file.display());
    let site = site.rule(&format!(
        "[[catalog.rule]]\nname = \"look\"\nnotify_only = true\nbackoff = {{ first_ms = 600000, max_ms = 600000 }}\n\
         handler = {{ kind = \"command\", argv = [\"/bin/sh\", \"-c\", {script:?}] }}\n"
    ));
    let _instance = site.start();
    eventually("the failure to show", || site.rule_status("look")["phase"] == "failed");
    let (_, why, _) = site.base().cli(&["why", "catalog"]);
    assert!(why.contains("exited with 3: no table"), "{why}");
    fs::write(&file, "").expect("write");
    let (code, _, error) = site.base().cli(&["catalog", "run-once", "look"]);
    assert_eq!(code, 0, "{error}");
    eventually("a run that succeeds", || site.rule_status("look")["polls"].as_u64() >= Some(1));
    let config = site.write().display().to_string();
    let (code, page, error) = site.base().cli(&["catalog", "check", "--config", &config]);
    assert_eq!(code, 0, "{error}");
    assert!(page.contains("/bin/sh at each change; claims nothing"), "{page}");
    let rows = site.rule("claim.set = { state = \"claimed\" }\n");
    let config = rows.write().display().to_string();
    let (code, _, error) = rows.base().cli(&["check", "--config", &config]);
    assert!(code == 78 && error.contains("catalog.lab.rule.look.claim"), "{error}");
}
