//! Tests of layers, with a schema that has nested arrays of named tables.

use std::ffi::OsString;

use super::*;
use crate::config::report::in_order;

/// Sections of the test configuration.
#[derive(Default, schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TestConfig {
    ingester: Vec<Ingester>,
    plain: Plain,
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Ingester {
    name: String,
    redis_url: String,
    #[serde(default)]
    ports: Vec<u16>,
    #[serde(default)]
    ratio: Option<f64>,
    #[serde(default)]
    stream: Vec<Stream>,
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Stream {
    name: String,
    source: String,
    #[serde(default)]
    set: std::collections::BTreeMap<String, serde_json::Value>,
}

#[derive(Default, schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Plain {
    count: u32,
    text: String,
    flag: bool,
}

const FILE: &str = "[[ingester]]\nname = \"beam-line\"\nredis_url = \"a\"\n\n\
                    [[ingester]]\nname = \"main\"\nredis_url = \"b\"\nports = [1, 2]\n";

/// Merges `files`, variables without their prefix, and `--set`. Returns the result as JSON and the errors.
fn merge(files: &[&str], variables: &[(&str, &str)], sets: &[&str]) -> (serde_json::Value, Vec<String>) {
    let schema = Schema::of::<TestConfig>();
    let directory = tempfile::tempdir().unwrap();
    let write = |(index, text): (usize, &&str)| {
        let path = directory.path().join(format!("{index}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let variable = |(name, value): &(&str, &str)| {
        (OsString::from(format!("ORCHESTRATOR__{name}")), OsString::from(value))
    };
    let sources = Sources {
        files: files.iter().enumerate().map(write).collect(),
        environment: variables.iter().map(variable).collect(),
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        only: None,
        ..Sources::default()
    };
    let (tree, diagnostics) = Layers::read(&sources, &schema).finish();
    let folder = format!("{}/", directory.path().display());
    let errors =
        in_order(diagnostics).iter().map(|diagnostic| diagnostic.to_string().replace(&folder, "")).collect();
    (check::to_json(&tree, None), errors)
}

fn redis_urls(merged: &serde_json::Value) -> Vec<(&str, &str)> {
    let entries = merged["ingester"].as_array().unwrap();
    entries.iter().map(|one| (one["name"].as_str().unwrap(), one["redis_url"].as_str().unwrap())).collect()
}

#[test]
fn entries_merge_by_name_from_every_layer() {
    let second =
        "[[ingester]]\nname = \"main\"\nredis_url = \"c\"\n[[ingester]]\nname = \"new\"\nredis_url = \"d\"\n";
    let (merged, errors) = merge(&[FILE, second], &[], &[]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(redis_urls(&merged), [("beam-line", "a"), ("main", "c"), ("new", "d")]);
    assert_eq!(
        merged["ingester"][1]["ports"],
        serde_json::json!([1, 2]),
        "keys that the second file does not set are kept"
    );

    let variables = [("INGESTER__MAIN__REDIS_URL", "e"), ("INGESTER__beam_line__REDIS_URL", "7")];
    let (merged, errors) = merge(&[FILE, second], &variables, &["ingester.main.ports=[3]"]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(redis_urls(&merged), [("beam-line", "7"), ("main", "e"), ("new", "d")]);
    assert_eq!(merged["ingester"][1]["ports"], serde_json::json!([3]));
}

#[test]
fn entries_within_entries_merge_by_name_and_keep_their_order() {
    let stream = |name: &str, source: &str| {
        format!("[[ingester.stream]]\nname = \"{name}\"\nsource = \"{source}\"\nset.A = 1\n")
    };
    let first = format!("{FILE}{}{}", stream("z", "one"), stream("a", "two"));
    let second = format!("[[ingester]]\nname = \"main\"\n{}{}", stream("m", "new"), stream("a", "other"));
    let variables =
        [("INGESTER__MAIN__STREAM__Z__SET__A", "2"), ("INGESTER__MAIN__STREAM__Z__SET__B_b", "x")];
    let sets = ["ingester.main.stream.m.set.A=true", "ingester.main.stream.m.set={c = [1.5]}"];
    let (merged, errors) = merge(&[&first, &second], &variables, &sets);
    assert_eq!(errors, [""; 0]);
    let expected = serde_json::json!([
        { "name": "z", "source": "one", "set": { "A": 2, "B_b": "x" } },
        { "name": "a", "source": "other", "set": { "A": 1 } },
        { "name": "m", "source": "new", "set": { "A": true, "c": [1.5] } },
    ]);
    assert_eq!(merged["ingester"][1]["stream"], expected);

    let twice = format!("{FILE}{}{}", stream("a", "one"), stream("a", "two"));
    let (_, errors) = merge(&[&twice], &[], &["ingester.main.stream.b.source=x"]);
    let expected = [
        "0.toml:13: ingester.main.stream: another entry has the name \"a\"; names must be unique",
        "--set ingester.main.stream.b.source=x: ingester.main.stream: no entry is named \"b\"; the entries are a",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn a_variable_selects_the_entry_with_the_nearest_spelling() {
    let entry = |name: &str| format!("[[ingester]]\nname = \"{name}\"\nredis_url = \"x\"\n");
    let file = ["a-b", "a_b", "a", "a__b"].map(entry).concat();
    for (variable, expected) in [
        ("INGESTER__A_B__REDIS_URL", "a_b"),
        ("INGESTER__a_b__REDIS_URL", "a_b"),
        ("INGESTER__A__REDIS_URL", "a"),
        ("INGESTER__A__B__REDIS_URL", "a__b"),
    ] {
        let (merged, errors) = merge(&[&file], &[(variable, "hit")], &[]);
        assert_eq!(errors, [""; 0], "{variable}");
        let hit: Vec<_> = redis_urls(&merged).into_iter().filter(|(_, url)| *url == "hit").collect();
        assert_eq!(hit, [(expected, "hit")], "{variable}");
    }
}

#[test]
fn errors_in_entries_have_the_name_of_the_entry() {
    let file = "[[ingester]]\nname = \"a\"\nredis_url = 1\nports = [1, -1, \"x\"]\n\n\
                [[ingester]]\nredis_url = \"\"\n\n[[ingester]]\nname = \"a\"\nredis_url = \"b\"\n\n\
                [[ingester]]\nname = \"c\"\n";
    let variables =
        [("INGESTER__MIAN__REDIS_URL", "x"), ("INGESTER__A__REDIS", "x"), ("INGESTER__A__PORTS", "1")];
    let (_, errors) = merge(&[file], &variables, &["ingester.d.ports=[1]"]);
    let expected = [
        "0.toml:3: ingester.a.redis_url: 1 is an integer, expected a string",
        "0.toml:4: ingester.a.ports[1]: -1 is below the minimum 0",
        "0.toml:4: ingester.a.ports[2]: \"x\" is a string, expected an integer",
        "0.toml:6: ingester[1].name: is missing and has no default",
        "0.toml:9: ingester: another entry has the name \"a\"; names must be unique",
        "0.toml:14: ingester.c.redis_url: is missing and has no default",
        "environment ORCHESTRATOR__INGESTER__A__PORTS: ingester.a.ports: 1 is an integer, expected an array",
        "environment ORCHESTRATOR__INGESTER__A__REDIS: ingester.a.redis: unknown key; expected one of name, ports, ratio, redis_url, stream",
        "environment ORCHESTRATOR__INGESTER__MIAN__REDIS_URL: ingester: no entry is named \"MIAN\"; the entries are a, c",
        "--set ingester.d.ports=[1]: ingester: no entry is named \"d\"; the entries are a, c",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn an_assignment_cannot_rename_an_entry() {
    let variables =
        [("INGESTER__MAIN__NAME", "x"), ("INGESTER__BEAM_LINE", "{name = \"y\", redis_url = \"z\"}")];
    let (_, errors) = merge(&[FILE], &variables, &[]);
    let expected = [
        "environment ORCHESTRATOR__INGESTER__BEAM_LINE: ingester.beam-line: the name of an entry cannot be changed here; change it in the file",
        "environment ORCHESTRATOR__INGESTER__MAIN__NAME: ingester.main.name: the name of an entry cannot be changed here; change it in the file",
    ];
    assert_eq!(errors, expected);
}

#[test]
fn a_variable_that_is_not_utf8_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let variable = (OsString::from("ORCHESTRATOR__PLAIN__TEXT"), OsString::from_vec(vec![0xff]));
    let sources = Sources { environment: vec![variable], ..Sources::default() };
    let schema = Schema::of::<TestConfig>();
    let errors: Vec<_> =
        Layers::read(&sources, &schema).diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["environment ORCHESTRATOR__PLAIN__TEXT: the value is not UTF-8; change or unset it"]);
}

#[test]
fn every_prefix_of_a_file_is_accepted_or_refused_with_a_position() {
    let whole = format!(
        "{FILE}[plain]\ncount = 1_0\ntext = \"\"\"\u{e4}\n\\u00e9\"\"\"\nflag = true # \u{20ac}\nplain.x = {{a = [1979-05-27]}}\n"
    );
    let schema = Schema::of::<TestConfig>();
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let mut layers = Layers::new(&schema);
        let (tree, broken) = document::read("x", &whole[..end], &schema);
        layers.diagnostics.extend(broken);
        layers.add(tree);
        let (_, diagnostics) = layers.finish();
        assert!(
            diagnostics.iter().all(|diagnostic| diagnostic.position.starts_with("x:")),
            "{end}: {diagnostics:?}"
        );
    }
}

#[test]
fn a_variable_may_hold_a_whole_array_or_table() {
    let whole = ("INGESTER", "[{name = \"x\", redis_url = \"y\"}]");
    let (merged, errors) = merge(&[], &[whole, ("PLAIN", "{count = 3}")], &["ingester.x.ratio=1"]);
    assert_eq!(errors, [""; 0]);
    assert_eq!(redis_urls(&merged), [("x", "y")]);
    assert_eq!(merged["plain"]["count"], 3);
}

#[test]
fn unquoted_text_is_a_string_only_for_a_key_that_expects_one() {
    for text in ["7117", "true", "1.5", "1979-05-27", "a b", "", "'7117'", "\"7117\""] {
        let (merged, errors) = merge(&[], &[("PLAIN__TEXT", text)], &[]);
        assert_eq!(errors, [""; 0]);
        assert_eq!(merged["plain"]["text"], text.trim_matches(['\'', '"']), "{text}");
        let (merged, errors) = merge(&[], &[], &[&format!("plain.text={text}")]);
        assert_eq!(errors, [""; 0]);
        assert_eq!(merged["plain"]["text"], text.trim_matches(['\'', '"']), "{text}");
    }
    for (variable, text, error) in [
        ("PLAIN__COUNT", "1.9", "1.9 is a float, expected an integer"),
        ("PLAIN__COUNT", "2.0", "2.0 is a float, expected an integer"),
        ("PLAIN__COUNT", "\"1\"", "\"1\" is a string, expected an integer"),
        ("PLAIN__COUNT", "", "\"\" is a string, expected an integer"),
        ("PLAIN__COUNT", "1\n2", "\"1\\n2\" is a string, expected an integer"),
        ("PLAIN__COUNT", "4294967296", "4294967296 is above the maximum 4294967295"),
        ("PLAIN__COUNT", "1979-05-27", "this is a date or time, expected an integer"),
        ("PLAIN__FLAG", "yes", "\"yes\" is a string, expected a boolean"),
        ("PLAIN__FLAG", "1", "1 is an integer, expected a boolean"),
        ("PLAIN__TEXT", "[1]", "this is an array, expected a string"),
        ("PLAIN", "x", "\"x\" is a string, expected a table"),
    ] {
        let key = variable.to_ascii_lowercase().replace("__", ".");
        let (_, errors) = merge(&[], &[(variable, text)], &[]);
        assert_eq!(errors, [format!("environment ORCHESTRATOR__{variable}: {key}: {error}")]);
    }
}

#[test]
fn misspelled_variables_are_errors_and_other_variables_are_ignored() {
    let (_, errors) =
        merge(&[], &[("", "x"), ("PLAIN__", "x"), ("PLAIN__CUONT", "1"), ("PLIAN__COUNT", "1")], &[]);
    let expected = [
        "environment ORCHESTRATOR__: \"\": unknown key outside of all sections; expected one of ingester, plain",
        "environment ORCHESTRATOR__PLAIN__: plain.\"\": unknown key; expected one of count, flag, text",
        "environment ORCHESTRATOR__PLAIN__CUONT: plain.cuont: unknown key; did you mean count?",
        "environment ORCHESTRATOR__PLIAN__COUNT: plian: unknown section; did you mean plain?",
    ];
    assert_eq!(errors, expected);
    let schema = Schema::of::<TestConfig>();
    let other = [("ORCHESTRATOR_SOCKET", "x"), ("ORCHESTRATOR", "x"), ("XORCHESTRATOR__PLAIN", "x")];
    let environment = other.map(|(name, value)| (name.into(), value.into())).to_vec();
    let layers = Layers::read(&Sources { environment, ..Sources::default() }, &schema);
    assert!(layers.diagnostics.is_empty() && layers.trees.is_empty());
}

#[test]
fn without_an_argument_the_file_is_that_of_the_variable_or_the_usual_one() {
    let usual = tempfile::NamedTempFile::new().unwrap();
    let missing = Path::new("/nonexistent/orchestrator.toml");
    let variable = |text: &str| Some(OsString::from(text));
    assert_eq!(default_file(variable("a.toml"), usual.path()), Some("a.toml".into()));
    assert_eq!(default_file(variable(""), usual.path()), None);
    assert_eq!(default_file(None, usual.path()), Some(usual.path().to_owned()));
    assert_eq!(default_file(None, missing), None);
}
