//! Identifiers of provenance, and names that several subsystems know.

use std::fs;

use orchestrator_harness::{ProvenanceEnv, TestEnv};
use serde_json::json;

use crate::{BINARY, asks};

const CONTENT: &str = "20329687bb9c1231a7e05afe86160343ad49b494";
const REVISION: &str = "c0d8929936631ecbcf9147be6b8aa13b13b014e4";

#[test]
fn an_identifier_tells_what_is_stored() {
    let env = ProvenanceEnv::new(BINARY);
    let _instance = env.start();
    let rows = [
        json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "revision", "id": REVISION, "date": "2005-03-18T01:58:31Z"}),
        json!({"add": "location", "path": "src/main.c"}),
        json!({"add": "content_in_revision", "src": CONTENT, "dst": REVISION, "path": "src/main.c"}),
    ];
    let (code, _, err) = env.base().cli(&["provenance", "import", &env.file(rows)]);
    assert_eq!(code, 0, "{err}");
    let content = [
        "content provenance/20329687",
        "stored, with the date 2005-03-18T01:58:31Z",
        "first in revision c0d8929936631ecbcf9147be6b8aa13b13b014e4 at src/main.c",
    ];
    asks(env.base(), "a content is stored", CONTENT, 0, &content);
    asks(
        env.base(),
        "a revision is stored",
        &format!("provenance/{REVISION}"),
        0,
        &["revision provenance/c0d8", "stored"],
    );
    let unknown = "ffffffffffffffffffffffffffffffffffffffff";
    let searched = ["nothing is known of ffff", "searched contents, directories, revisions and origins"];
    asks(env.base(), "an identifier is not stored", unknown, 2, &searched);
}

#[test]
fn a_name_that_two_subsystems_know_is_listed_twice() {
    let env = TestEnv::new(BINARY);
    let config = env.path().join("both.toml");
    let text = "[provenance]\nsqlite = { path = \"PATH\" }\n";
    let text = text.replace("PATH", &env.path().join("p.db").display().to_string());
    fs::write(&config, text).expect("write the configuration");
    env.write("demo.1.txt", format!("{CONTENT} 1\n"));
    let mut command = env.command();
    command.arg("--config").arg(config);
    let _instance = env.start_by(command);
    let rows = env.path().join("rows.jsonl");
    let row = json!({"add": "content", "id": CONTENT, "date": "2005-03-18T01:58:31Z"});
    fs::write(&rows, format!("{row}\n")).expect("write the rows");
    assert_eq!(env.cli(&["provenance", "import", &rows.display().to_string()]).0, 0);
    let both = ["job queue/20329687", "content provenance/20329687"];
    asks(&env, "two subsystems know the name", CONTENT, 1, &both);
    asks(
        &env,
        "the name of one subsystem before it",
        &format!("provenance/{CONTENT}"),
        0,
        &["content provenance/"],
    );
}
