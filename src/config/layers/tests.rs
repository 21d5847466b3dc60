//! Layers over a schema of its own, with an array of named tables that have such arrays in their turn.

use std::ffi::OsString;

use super::*;
use crate::config::report::in_order;

/// What sections may have.
#[derive(Default, schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Toy {
    ingester: Vec<Ingester>,
    plain: Plain,
}

#[derive(schemars::JsonSchema, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema counts")]
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
#[expect(dead_code, reason = "only its schema counts")]
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

/// The sum of `files`, variables without their prefix, and `--set`, as JSON; and the complaints.
fn merge(files: &[&str], variables: &[(&str, &str)], sets: &[&str]) -> (serde_json::Value, Vec<String>) {
    let schema = Schema::of::<Toy>();
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
    };
    let (merged, refusals) = Layers::read(&sources, &schema).finish();
    let folder = format!("{}/", directory.path().display());
    let complaints =
        in_order(refusals).iter().map(|refusal| refusal.to_string().replace(&folder, "")).collect();
    (check::to_json(&merged, None), complaints)
}

fn redis_urls(sum: &serde_json::Value) -> Vec<(&str, &str)> {
    let entries = sum["ingester"].as_array().unwrap();
    entries.iter().map(|one| (one["name"].as_str().unwrap(), one["redis_url"].as_str().unwrap())).collect()
}

#[test]
fn entries_merge_by_name_from_every_layer() {
    let second =
        "[[ingester]]\nname = \"main\"\nredis_url = \"c\"\n[[ingester]]\nname = \"new\"\nredis_url = \"d\"\n";
    let (sum, complaints) = merge(&[FILE, second], &[], &[]);
    assert_eq!(complaints, [""; 0]);
    assert_eq!(redis_urls(&sum), [("beam-line", "a"), ("main", "c"), ("new", "d")]);
    assert_eq!(sum["ingester"][1]["ports"], serde_json::json!([1, 2]), "what the second leaves out stays");

    let variables = [("INGESTER__MAIN__REDIS_URL", "e"), ("INGESTER__beam_line__REDIS_URL", "7")];
    let (sum, complaints) = merge(&[FILE, second], &variables, &["ingester.main.ports=[3]"]);
    assert_eq!(complaints, [""; 0]);
    assert_eq!(redis_urls(&sum), [("beam-line", "7"), ("main", "e"), ("new", "d")]);
    assert_eq!(sum["ingester"][1]["ports"], serde_json::json!([3]));
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
    let (sum, complaints) = merge(&[&first, &second], &variables, &sets);
    assert_eq!(complaints, [""; 0]);
    let expected = serde_json::json!([
        { "name": "z", "source": "one", "set": { "A": 2, "B_b": "x" } },
        { "name": "a", "source": "other", "set": { "A": 1 } },
        { "name": "m", "source": "new", "set": { "A": true, "c": [1.5] } },
    ]);
    assert_eq!(sum["ingester"][1]["stream"], expected);

    let twice = format!("{FILE}{}{}", stream("a", "one"), stream("a", "two"));
    let (_, complaints) = merge(&[&twice], &[], &["ingester.main.stream.b.source=x"]);
    let expected = [
        "0.toml:13: ingester.main.stream: another entry is named \"a\"; give each a name of its own",
        "--set ingester.main.stream.b.source=x: ingester.main.stream: no entry is named \"b\"; there is a",
    ];
    assert_eq!(complaints, expected);
}

#[test]
fn the_nearest_spelling_of_an_entry_is_meant() {
    let entry = |name: &str| format!("[[ingester]]\nname = \"{name}\"\nredis_url = \"x\"\n");
    let file = ["a-b", "a_b", "a", "a__b"].map(entry).concat();
    for (variable, meant) in [
        ("INGESTER__A_B__REDIS_URL", "a_b"),
        ("INGESTER__a_b__REDIS_URL", "a_b"),
        ("INGESTER__A__REDIS_URL", "a"),
        ("INGESTER__A__B__REDIS_URL", "a__b"),
    ] {
        let (sum, complaints) = merge(&[&file], &[(variable, "hit")], &[]);
        assert_eq!(complaints, [""; 0], "{variable}");
        let hit: Vec<_> = redis_urls(&sum).into_iter().filter(|(_, url)| *url == "hit").collect();
        assert_eq!(hit, [(meant, "hit")], "{variable}");
    }
}

#[test]
fn what_is_wrong_with_entries_is_told_by_name() {
    let file = "[[ingester]]\nname = \"a\"\nredis_url = 1\nports = [1, -1, \"x\"]\n\n\
                [[ingester]]\nredis_url = \"\"\n\n[[ingester]]\nname = \"a\"\nredis_url = \"b\"\n\n\
                [[ingester]]\nname = \"c\"\n";
    let variables =
        [("INGESTER__MIAN__REDIS_URL", "x"), ("INGESTER__A__REDIS", "x"), ("INGESTER__A__PORTS", "1")];
    let (_, complaints) = merge(&[file], &variables, &["ingester.d.ports=[1]"]);
    let expected = [
        "0.toml:3: ingester.a.redis_url: 1 is an integer, a string is expected",
        "0.toml:4: ingester.a.ports[1]: -1 is below the least value 0",
        "0.toml:4: ingester.a.ports[2]: \"x\" is a string, an integer is expected",
        "0.toml:6: ingester[1].name: is missing and has no default",
        "0.toml:9: ingester: another entry is named \"a\"; give each a name of its own",
        "0.toml:14: ingester.c.redis_url: is missing and has no default",
        "environment ORCHESTRATOR__INGESTER__A__PORTS: ingester.a.ports: 1 is an integer, an array is expected",
        "environment ORCHESTRATOR__INGESTER__A__REDIS: ingester.a.redis: unknown key; known are name, ports, ratio, redis_url, stream",
        "environment ORCHESTRATOR__INGESTER__MIAN__REDIS_URL: ingester: no entry is named \"MIAN\"; there is a, c",
        "--set ingester.d.ports=[1]: ingester: no entry is named \"d\"; there is a, c",
    ];
    assert_eq!(complaints, expected);
}

#[test]
fn an_entry_keeps_its_name() {
    let variables =
        [("INGESTER__MAIN__NAME", "x"), ("INGESTER__BEAM_LINE", "{name = \"y\", redis_url = \"z\"}")];
    let (_, complaints) = merge(&[FILE], &variables, &[]);
    let expected = [
        "environment ORCHESTRATOR__INGESTER__BEAM_LINE: ingester.beam-line: an entry keeps its name; rename it in its file",
        "environment ORCHESTRATOR__INGESTER__MAIN__NAME: ingester.main.name: an entry keeps its name; rename it in its file",
    ];
    assert_eq!(complaints, expected);
}

#[test]
fn a_variable_that_is_no_text_is_told() {
    use std::os::unix::ffi::OsStringExt;
    let variable = (OsString::from("ORCHESTRATOR__PLAIN__TEXT"), OsString::from_vec(vec![0xff]));
    let sources = Sources { environment: vec![variable], ..Sources::default() };
    let schema = Schema::of::<Toy>();
    let told: Vec<_> = Layers::read(&sources, &schema).refusals.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["environment ORCHESTRATOR__PLAIN__TEXT: this is no UTF-8; change or unset it"]);
}

/// Wherever a file breaks off: it is taken or refused with a place, and nothing panics.
#[test]
fn a_file_may_break_off_anywhere() {
    let whole = format!(
        "{FILE}[plain]\ncount = 1_0\ntext = \"\"\"\u{e4}\n\\u00e9\"\"\"\nflag = true # \u{20ac}\nplain.x = {{a = [1979-05-27]}}\n"
    );
    let schema = Schema::of::<Toy>();
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let mut layers = Layers::none(&schema);
        let (tree, broken) = document::read("x", &whole[..end], &schema);
        layers.refusals.extend(broken);
        layers.add(tree);
        let (_, refusals) = layers.finish();
        assert!(refusals.iter().all(|refusal| refusal.place.starts_with("x:")), "{end}: {refusals:?}");
    }
}

#[test]
fn a_variable_may_hold_a_whole_array_or_table() {
    let whole = ("INGESTER", "[{name = \"x\", redis_url = \"y\"}]");
    let (sum, complaints) = merge(&[], &[whole, ("PLAIN", "{count = 3}")], &["ingester.x.ratio=1"]);
    assert_eq!(complaints, [""; 0]);
    assert_eq!(redis_urls(&sum), [("x", "y")]);
    assert_eq!(sum["plain"]["count"], 3);
}

#[test]
fn texts_are_strings_only_where_strings_are_expected() {
    for text in ["7117", "true", "1.5", "1979-05-27", "a b", "", "'7117'", "\"7117\""] {
        let (sum, complaints) = merge(&[], &[("PLAIN__TEXT", text)], &[]);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(sum["plain"]["text"], text.trim_matches(['\'', '"']), "{text}");
        let (sum, complaints) = merge(&[], &[], &[&format!("plain.text={text}")]);
        assert_eq!(complaints, [""; 0]);
        assert_eq!(sum["plain"]["text"], text.trim_matches(['\'', '"']), "{text}");
    }
    for (variable, text, complaint) in [
        ("PLAIN__COUNT", "1.9", "1.9 is a float, an integer is expected"),
        ("PLAIN__COUNT", "2.0", "2.0 is a float, an integer is expected"),
        ("PLAIN__COUNT", "\"1\"", "\"1\" is a string, an integer is expected"),
        ("PLAIN__COUNT", "", "\"\" is a string, an integer is expected"),
        ("PLAIN__COUNT", "1\n2", "\"1\\n2\" is a string, an integer is expected"),
        ("PLAIN__COUNT", "4294967296", "4294967296 is above the greatest value 4294967295"),
        ("PLAIN__COUNT", "1979-05-27", "this is a date or time, an integer is expected"),
        ("PLAIN__FLAG", "yes", "\"yes\" is a string, a boolean is expected"),
        ("PLAIN__FLAG", "1", "1 is an integer, a boolean is expected"),
        ("PLAIN__TEXT", "[1]", "this is an array, a string is expected"),
        ("PLAIN", "x", "\"x\" is a string, a table is expected"),
    ] {
        let key = variable.to_ascii_lowercase().replace("__", ".");
        let (_, complaints) = merge(&[], &[(variable, text)], &[]);
        assert_eq!(complaints, [format!("environment ORCHESTRATOR__{variable}: {key}: {complaint}")]);
    }
}

#[test]
fn slips_in_variables_are_told_and_other_programs_variables_are_none() {
    let (_, complaints) =
        merge(&[], &[("", "x"), ("PLAIN__", "x"), ("PLAIN__CUONT", "1"), ("PLIAN__COUNT", "1")], &[]);
    let expected = [
        "environment ORCHESTRATOR__: \"\": unknown key outside of all sections; known are ingester, plain",
        "environment ORCHESTRATOR__PLAIN__: plain.\"\": unknown key; known are count, flag, text",
        "environment ORCHESTRATOR__PLAIN__CUONT: plain.cuont: unknown key; did you mean count?",
        "environment ORCHESTRATOR__PLIAN__COUNT: plian: unknown section; did you mean plain?",
    ];
    assert_eq!(complaints, expected);
    let schema = Schema::of::<Toy>();
    let other = [("ORCHESTRATOR_SOCKET", "x"), ("ORCHESTRATOR", "x"), ("XORCHESTRATOR__PLAIN", "x")];
    let environment = other.map(|(name, value)| (name.into(), value.into())).to_vec();
    let layers = Layers::read(&Sources { environment, ..Sources::default() }, &schema);
    assert!(layers.refusals.is_empty() && layers.trees.is_empty());
}
