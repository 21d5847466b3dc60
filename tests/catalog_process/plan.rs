//! Rules whose claims a program plans.

use std::{fs, path::Path, process::Command};

use orchestrator_harness::{
    CatalogEnv, Ermrest, Instance, TestEnv, deriva_state_changes, eventually, wait_for,
};
use serde_json::{Map, Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const HEADING: &str = "### A row_transform_func as it is";

/// Rows with some columns, sorted.
fn columns(server: &Ermrest, table: &str) -> Vec<String> {
    let columns = |row: &Map<String, Value>| {
        format!("{} {} {} {}", row["id"], row["state"], row["claimed_by"], row["payload"])
    };
    let mut rows: Vec<_> = server.rows(table).iter().map(columns).collect();
    rows.sort();
    rows
}

fn row(server: &Ermrest, id: u32) -> Map<String, Value> {
    server.rows("Foo").into_iter().find(|row| row["id"] == id).expect("a row")
}

#[test]
fn the_function_on_the_page_does_what_it_does_with_the_original() {
    let [function, program, rule] = super::page_blocks(HEADING)[..] else { panic!("three blocks") };
    let (server, site) = (Ermrest::start(&[]), TestEnv::new(BINARY));
    fs::write(site.path().join("my_agent.py"), function).expect("write");
    fs::write(site.path().join("plan.py"), program).expect("write");
    let rows: Vec<_> = (1..=30)
        .map(|id| {
            let payload = if id % 3 == 0 { Value::Null } else { json!(format!("é{id}")) };
            json!({ "id": id, "state": "actionable", "payload": payload })
        })
        .collect();
    for table in ["Foo", "Other"] {
        server.insert(table, &json!(rows), "");
    }
    // Rows that are left must not fill the limit: the original does not look behind them.
    let rule = rule.replace("limit=5", "limit=50").replace("limit = 5", "limit = 50");
    let rule = rule.replace("/opt/agent", &site.path().display().to_string());
    let rule =
        rule.replace("\"http://localhost/ermrest/catalog/1\"", &format!("{:?}\namqp = \"\"", server.url()));
    let file = site.path().join("agent.toml");
    fs::write(&file, rule).expect("write");
    let query = "/entity/Other/state=actionable?limit=50";
    deriva_state_changes(&server.url(), site.path(), query, "/attributegroup/Other/id;state,claimed_by");
    assert_eq!(columns(&server, "Other").iter().filter(|row| row.contains("\"claimed\"")).count(), 20);
    let mut command = site.bare_command();
    command.args(["run", "--only", "catalog", "--set", "admin.listen=", "--config"]).arg(&file);
    let _instance = Instance::spawn(command);
    eventually("the rows to be as the original leaves them", || {
        columns(&server, "Foo") == columns(&server, "Other")
    });
}

/// A rule whose claims `script` plans, in Python; it reads `row` and calls `answer`.
fn planned_rule(script: &str) -> String {
    let program = format!(
        "import json, os, sys\ndef answer(value): print(json.dumps(value), flush=True)\n\
         for line in sys.stdin:\n    row = json.loads(line)\n    {}",
        script.replace('\n', "\n    ")
    );
    format!(
        "[[catalog.rule]]\nname = \"work\"\ntable = \"Foo\"\nfilter = \"state=actionable\"\nsort = \"id\"\n\
         backoff = {{ first_ms = 100, max_ms = 1000 }}\nclaim.set.claimed_by = \"$token\"\n\
         plan = {{ kind = \"command\", argv = [\"python3\", \"-c\", {}], columns = [\"state\", \"payload\"] }}\n",
        json!(program)
    )
}

#[test]
fn a_program_writes_no_column_that_the_rule_does_not_allow() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server).rule(&planned_rule(
        "hostile = [{'id': 999}, {'claimed_by': 'another/1'}, {'RID': 'X'}, {'doc': 'x'}, {'RMT': None}, {}]\n\
         answer({'state': 'claimed', **hostile[row['id'] % 6]})",
    ));
    let _instance = site.start();
    server.insert_foo(18, "actionable");
    eventually("the allowed rows to be claimed", || {
        server.rows("Foo").iter().filter(|row| row["state"] == "claimed").count() == 3
    });
    eventually("all others to be shown", || {
        let shown = site.rule_status("work")["unsettled"].to_string();
        ["id", "claimed_by", "RID", "doc", "RMT"]
            .iter()
            .all(|column| shown.contains(&format!("the plan writes {column}, which is not in plan.columns")))
    });
    for row in server.rows("Foo") {
        let allowed = row["id"].as_u64().map(|id| id % 6) == Some(5);
        assert_eq!(row["state"] == "claimed", allowed, "{row:?}");
        assert!(row["doc"].is_null() && (allowed || row["claimed_by"].is_null()), "{row:?}");
        assert!(row["claimed_by"] != "another/1" && row["RID"] != "X", "{row:?}");
    }
    let written = server.requests().into_iter().filter(|request| request["method"] == "PUT");
    for request in written {
        let path = request["path"].as_str().expect("a path").to_owned();
        assert!(path.ends_with("/attributegroup/Foo/RID,RMT;claimed_by,state,payload"), "{path}");
    }
}

#[test]
fn a_row_that_ends_the_program_does_not_stop_the_others() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let file = site.base().path().join("pid");
    let site = site.rule(&planned_rule(&format!(
        "open({:?}, 'w').write(str(os.getpid()))\n\
         if row['id'] % 10 == 4: sys.exit('no such column')\n\
         answer(None if row['id'] % 10 == 5 else {{'state': 'claimed', 'payload': row['payload']}})",
        file.display()
    )));
    let instance = site.start();
    server.insert_foo(20, "actionable");
    let claimed = || server.rows("Foo").iter().filter(|row| row["state"] == "claimed").count();
    eventually("all good rows to be claimed", || claimed() == 16);
    eventually("the row to be shown", || {
        site.rule_status("work")["unsettled"].to_string().contains("(exit status: 1): no such column")
    });
    for id in [4, 5, 14, 15] {
        assert_eq!(row(&server, id)["state"], "actionable", "{id}");
    }
    // A program that begins empties the file before it writes.
    let program =
        || wait_for("a process id", || fs::read_to_string(&file).ok().filter(|pid| !pid.is_empty()));
    // A change of a row that was left is seen at once, also by a new program.
    let pid = program();
    let arguments = fs::read_to_string(Path::new("/proc").join(&pid).join("cmdline")).unwrap_or_default();
    // It ends by itself when it is asked about the fourth row again.
    if arguments.contains(&file.display().to_string()) {
        let _ = Command::new("kill").args(["-9", &pid]).output();
    }
    server.insert("Foo", &json!([{ "id": 21, "state": "actionable" }]), "");
    eventually("a new row to be claimed", || row(&server, 21)["state"] == "claimed");
    // The program ends with the process.
    let pid = program();
    assert!(instance.terminate().success());
    eventually("the program to end", || !Path::new("/proc").join(&pid).exists());
}

#[test]
fn a_program_that_does_not_work_is_a_reason_and_no_crash() {
    let server = Ermrest::start(&[]);
    let site = CatalogEnv::new(BINARY, &server);
    let module = site.base().path().join("rules.py");
    let site = site.rule(&planned_rule(&format!(
        "exec(open({:?}).read())\nanswer({{'state': 'claimed'}})",
        module.display()
    )));
    let mut instance = site.start();
    server.insert_foo(3, "actionable");
    eventually("the reason", || site.rule_status("work")["phase"] == "plan_failed");
    let reason = site.rule_status("work")["reason"].to_string();
    assert!(reason.contains("FileNotFoundError") && reason.contains("rules.py"), "{reason}");
    let (_, why, _) = site.base().cli(&["why", "catalog"]);
    assert!(why.contains("rules/work: no plan for claims: python3 ended without an answer"), "{why}");
    let (code, page, _) = site.base().cli(&["catalog", "check", "--config", "catalog.toml"]);
    assert!(code != 0 || page.contains("FileNotFoundError"), "{page}");
    assert!(instance.ended().is_none());
    fs::write(&module, "").expect("write");
    eventually("all rows to be claimed", || server.rows("Foo").iter().all(|row| row["state"] == "claimed"));
    eventually("no reason", || site.rule_status("work")["phase"] == "idle");
    assert_eq!(site.rule_status("work")["unsettled"], Value::Null, "no row was to blame");
}
