//! Packages for NixOS: module and flake are evaluated by Debian's Nix without nixpkgs, and what the module
//! writes is a configuration.

use std::{collections::BTreeMap, fs, process::Command};

use orchestrator_harness::TestEnv;
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Evaluates the module with these options.
fn evaluate(given: &str) -> Value {
    let expression =
        format!("import {ROOT}/tests/project/nix/evaluate.nix {{ root = {ROOT}; given = {given}; }}");
    let output = Command::new("nix-instantiate")
        .args(["--eval", "--strict", "--json", "-E", &expression])
        // Nothing is built, so no store is needed.
        .env("NIX_REMOTE", "dummy://")
        .output()
        .expect("nix-instantiate runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Arguments, with the configuration that the module would write for them.
fn command(unit: &Value) -> (String, Value) {
    let start = unit["serviceConfig"]["ExecStart"].as_str().expect("a command");
    let (arguments, settings) = start.split_once("orchestrator.toml ").expect("a configuration");
    (arguments.to_owned(), serde_json::from_str(settings).expect("settings"))
}

fn check(settings: &Value) {
    let env = TestEnv::new(BINARY);
    let file = env.path().join("orchestrator.toml");
    fs::write(&file, toml::to_string(settings).expect("TOML")).expect("write the configuration");
    let (code, _, error) = env.cli(&["check", "--config", &file.display().to_string()]);
    assert_eq!(code, 0, "{settings}: {error}");
}

/// Keys of the section [Service] of a unit of this folder.
fn service(name: &str) -> BTreeMap<String, Vec<String>> {
    let unit = fs::read_to_string(format!("{ROOT}/deploy/{name}.service")).expect("the unit");
    let section = unit.split("[Service]").nth(1).and_then(|rest| rest.split("[Install]").next());
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in section.expect("a section").lines().filter(|line| !line.starts_with('#')) {
        if let Some((key, value)) = line.split_once('=') {
            keys.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    keys
}

#[test]
fn the_options_of_the_module_exist_and_the_flake_has_its_outputs() {
    let found = evaluate("{ }");
    let names = |value: &Value| value.as_object().expect("a set").keys().cloned().collect::<Vec<_>>();
    let options = ["credentials", "enable", "hardening", "package", "queue", "settings", "watchdog"];
    assert_eq!(names(&found["options"]), options);
    assert_eq!(names(&found["options"]["queue"]), ["database", "fetchers", "group", "socket", "user"]);
    assert_eq!(found["unit"], Value::Null, "nothing runs unless enabled");
    assert_eq!(found["package"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(found["package"]["mainProgram"], "orchestrator");
    assert_eq!(found["checks"], json!(["package", "unit"]));
    assert_eq!(found["module"], json!(["imports", "services"]));
}

#[test]
fn the_queue_of_nixpkgs_update_keeps_its_directories() {
    let page = fs::read_to_string(format!("{ROOT}/actors/queue/README.md")).expect("the page");
    let change =
        page.split("+  services.orchestrator = {\n").nth(1).and_then(|rest| rest.split("+  };\n").next());
    let options = change.expect("the change of the site's file").replace("\n+", "\n");
    let found = evaluate(&format!(
        "{{ package = \"/nix/store/x\"; settings.queue.hold_secs = 3600; {} }}",
        options.trim_start_matches('+')
    ));
    let (arguments, settings) = command(&found["unit"]);
    assert_eq!(arguments, "/nix/store/x/bin/orchestrator run --config ");
    assert_eq!(
        settings,
        json!({
            "admin": { "listen": "", "unix_socket": "/run/orchestrator/admin.sock" },
            "queue": {
                "database": "/var/log/nixpkgs-update/~supervisor/state.db",
                "input_dir": "/var/log/nixpkgs-update/~fetchers",
                "socket": "/run/nixpkgs-update-supervisor/work.sock",
                "hold_secs": 3600,
            },
        })
    );
    check(&settings);
    let given = &found["unit"]["serviceConfig"];
    assert_eq!(given["LogsDirectory"], json!(["nixpkgs-update"]));
    assert_eq!(given["RuntimeDirectory"], json!(["orchestrator", "nixpkgs-update-supervisor"]));
    assert_eq!(given["StateDirectory"], json!(["orchestrator"]));
    assert_eq!((&given["User"], &given["Group"]), (&json!("r-ryantm"), &json!("r-ryantm")));
    assert_eq!(found["users"], json!({}), "the site has this user");
    // The rest is that of the unit for other systems.
    let own = ["ExecStart", "User", "Group", "StateDirectory", "RuntimeDirectory", "LoadCredential"];
    for (key, values) in service("orchestrator").iter().filter(|(key, _)| !own.contains(&key.as_str())) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let wanted = match values[..] {
            ["30"] if key == "WatchdogSec" => json!(30),
            [value] => json!(value),
            _ => json!(values),
        };
        assert_eq!(given[key], wanted, "{key}");
    }
}

#[test]
fn a_service_has_the_rights_that_its_subsystems_need() {
    let ingester = r#"settings.ingester = [ { name = "eiger"; stream = [ { name = "eiger"; source = "stins"; upstream_url = "tcp://detector:9999"; } ]; } ];"#;
    let alone = evaluate(&format!(
        "{{ enable = true; package = \"/x\"; {ingester} credentials.redis = \"/etc/redis\"; }}"
    ));
    check(&command(&alone["unit"]).1);
    let given = &alone["unit"]["serviceConfig"];
    assert_eq!(given["LoadCredential"], json!(["redis:/etc/redis"]));
    assert_eq!((&given["IPAddressDeny"], &given["MemoryDenyWriteExecute"]), (&Value::Null, &Value::Null));
    assert_eq!(given["ProtectHome"], "read-only");
    assert_eq!(alone["users"]["users"]["orchestrator"]["isSystemUser"], true);

    let both = evaluate(&format!(
        "{{ enable = true; package = \"/x\"; {ingester} queue.database = \"/var/lib/orchestrator/queue.db\"; hardening = false; watchdog = null; }}"
    ));
    check(&command(&both["unit"]).1);
    let given = &both["unit"]["serviceConfig"];
    assert_eq!((&given["ProtectSystem"], &given["WatchdogSec"]), (&Value::Null, &Value::Null));
    assert_eq!((&given["Type"], &given["Restart"]), (&json!("notify"), &json!("on-failure")));
    assert_eq!(given["StateDirectory"], json!(["orchestrator"]));
}

/// The unit grants no more than the settings need: only the queue's own has no network.
#[test]
fn the_settings_choose_the_unit() {
    const HOOK: &str = r#"settings.hook = [ { name = "h"; on = "queue.failed"; argv = [ "/bin/true" ]; } ];"#;
    let provenance = r#"settings.provenance.routing = "binding";"#;
    let provenance_with_hook = format!("{HOOK} {provenance}");
    let cases = [
        ("", "orchestrator"),
        ("settings.queue.hold_secs = 60;", "orchestrator"),
        (
            r#"settings.admin.listen = "127.0.0.1:7117"; settings.admin.probe_listen = "[::1]:7118";"#,
            "orchestrator",
        ),
        (r#"settings.admin.probe_listen = "0.0.0.0:7118";"#, "orchestrator-pipeline"),
        (
            r#"settings.admin.listen = "[::]:7117"; settings.admin.tokens_file = "/nowhere/tokens";"#,
            "orchestrator-pipeline",
        ),
        (r#"settings.queue.store = "postgres";"#, "orchestrator-pipeline"),
        (HOOK, "orchestrator-pipeline"),
        (provenance, "orchestrator-provenance"),
        (&provenance_with_hook, "orchestrator-pipeline"),
        (
            r#"settings.queue.hold_secs = 60; settings.provenance.routing = "binding";"#,
            "orchestrator-pipeline",
        ),
    ];
    for (settings, name) in cases {
        let found = evaluate(&format!("{{ enable = true; package = \"/x\"; {settings} }}"));
        let given = &found["unit"]["serviceConfig"];
        let wanted = service(name);
        for key in ["IPAddressDeny", "RestrictAddressFamilies", "ProtectHome", "MemoryDenyWriteExecute"] {
            let value = wanted.get(key).map_or(Value::Null, |values| json!(values[0]));
            assert_eq!(given[key], value, "{settings}: {key} is not that of {name}");
        }
    }
}
