//! Sections within sections, and columns of any name and kind: what catalogs have and nobody else.

use serde_json::{Value, json};

use super::super::{Config, Sources};

const FILE: &str = r#"
[[catalog]]
name = "lab"
base = "https://h/ermrest/catalog/1"

[[catalog.rule]]
name = "second"
table = "T"
claim.set.state = "claimed"

[[catalog.rule]]
name = "convert.all"
table = "T"
lease_secs = 60
claim.set = { State = "claimed", "claimed by" = "$token", until = "$now+60s" }
done = { n = 1, ratio = 0.5, flag = true, list = [1, "x"], info = { a = { b = 2 } } }
"#;

/// All layers: `FILE`, the environment without the prefix, and `--set`.
fn sources(file: &tempfile::NamedTempFile, text: &str, variables: &[(&str, &str)], sets: &[&str]) -> Sources {
    std::fs::write(file.path(), text).unwrap();
    Sources {
        files: vec![file.path().to_owned()],
        environment: variables
            .iter()
            .map(|(name, value)| (format!("ORCHESTRATOR__CATALOG__LAB__{name}").into(), (*value).into()))
            .collect(),
        sets: sets.iter().map(|set| (*set).to_owned()).collect(),
        only: None,
    }
}

fn load(variables: &[(&str, &str)], sets: &[&str]) -> Result<Value, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sources = sources(&file, FILE, variables, sets);
    let config = Config::load(&sources).map_err(|error| error.to_string())?;
    Ok(config.to_json()["catalog"][0]["rule"].clone())
}

/// What is told of `text`, without the file's name.
fn told(text: &str, sets: &[&str]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Config::load(&sources(&file, text, &[], sets)).unwrap_err().to_string();
    let name = file.path().display().to_string();
    error.lines().skip(1).map(|line| line.replace(&name, "FILE")).collect()
}

#[test]
fn columns_have_values_of_any_kind_and_keep_their_names() {
    let rules = load(&[], &[]).unwrap();
    assert_eq!(rules[0]["name"], "second", "the order of the file");
    assert_eq!(
        rules[1]["claim"]["set"],
        json!({ "State": "claimed", "claimed by": "$token", "until": "$now+60s" })
    );
    let done = json!({ "n": 1, "ratio": 0.5, "flag": true, "list": [1, "x"], "info": { "a": { "b": 2 } } });
    assert_eq!(rules[1]["done"], done);
}

#[test]
fn a_column_of_a_rule_can_be_set_from_outside() {
    let sets = [
        r#"catalog.lab.rule.second.claim.set.state=taken"#,
        r#"catalog.lab.rule.second.done={state = "complete", n = 7}"#,
        r#"catalog.lab.rule."convert.all".claim.set."claimed by"="me""#,
        r#"catalog.lab.rule."convert.all".done.n='1'"#,
        r#"catalog.lab.rule."convert.all".done.ratio=2"#,
        r#"catalog.lab.rule."convert.all".done.new=false"#,
        "catalog.lab.rule.second.limit=7",
    ];
    let rules = load(&[], &sets).unwrap();
    assert_eq!(rules[0]["claim"]["set"], json!({ "state": "taken" }));
    assert_eq!((&rules[0]["done"], &rules[0]["limit"]), (&json!({ "state": "complete", "n": 7 }), &json!(7)));
    assert_eq!(rules[1]["claim"]["set"]["claimed by"], "me");
    let done = &rules[1]["done"];
    assert_eq!(
        (&done["n"], &done["ratio"], &done["new"], &done["flag"]),
        (&json!("1"), &json!(2), &json!(false), &json!(true))
    );

    let variables = [
        ("RULE__SECOND__CLAIM__SET__STATE", "taken"),
        ("RULE__CONVERT_ALL__CLAIM__SET__STATE", "Taken"),
        ("RULE__convert_all__CLAIM__SET__CLAIMED_BY", "me"),
        ("RULE__SECOND__DONE__Result", "$result.x"),
        ("RULE__SECOND__KEY", "id"),
    ];
    let rules = load(&variables, &[]).unwrap();
    assert_eq!(rules[0]["claim"]["set"], json!({ "state": "taken" }));
    assert_eq!(rules[1]["claim"]["set"]["State"], "Taken", "the column that is there is meant");
    assert_eq!(rules[1]["claim"]["set"]["claimed by"], "me");
    assert_eq!((&rules[0]["done"], &rules[0]["key"]), (&json!({ "Result": "$result.x" }), &json!("id")));

    let error = load(&[], &["catalog.lab.rule.third.limit=7"]).unwrap_err();
    assert!(error.contains(r#"no entry is named "third"; there is convert.all, second"#), "{error}");
}

/// What JSON has no like for would be written as something else.
#[test]
fn what_cannot_be_written_into_a_column_is_refused() {
    let text = format!(
        "{FILE}[catalog.rule.fail]\nday = 1979-05-27\nnone = nan\ngreat = 99999999999999999999\nin = [[1979-05-27]]\nfine = 1\n"
    );
    let expected = [
        r#"FILE:18: catalog.lab.rule."convert.all".fail.day: this is a date or time; write it in quotes"#,
        r#"FILE:19: catalog.lab.rule."convert.all".fail.none: this is no number that can be written down"#,
        r#"FILE:20: catalog.lab.rule."convert.all".fail.great: this has more than 64 bits; write it in quotes"#,
        r#"FILE:21: catalog.lab.rule."convert.all".fail.in[0][0]: this is a date or time; write it in quotes"#,
    ];
    assert_eq!(told(&text, &[]), expected);
}

#[test]
fn what_is_wrong_with_a_rule_is_told_where_it_stands() {
    let text = FILE.replace("lease_secs = 60", "lease_secs = 61").replace("n = 1,", "n = \"$errr\",");
    let expected = [
        r#"FILE:14: catalog.lab.rule."convert.all".lease_secs: 61: the claim says 60 s: leave it out, or write the same"#,
        r#"FILE:16: catalog.lab.rule."convert.all".done.n: "$errr": $errr is not known: write $token, $now, $now+15m, $null, $error, $row.COLUMN, $row.COLUMN+1 or $result.FIELD; write $$ for a plain $"#,
    ];
    assert_eq!(told(&text, &[]), expected);
}

#[test]
fn a_token_is_taken_and_shown_nowhere() {
    let text = FILE
        .replace("base =", "token = \"s3cret\"\nbase =")
        .replace("{ n = 1,", "{ n = 1, token = \"$token\",");
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = Config::load(&sources(&file, &text, &[], &[])).unwrap();
    assert_eq!(
        config.sections[0]
            .get::<orchestrator_catalog::Catalogs>()
            .and_then(|catalogs| catalogs[0].token.as_ref())
            .map(orchestrator_catalog::PlainToken::reveal),
        Some("s3cret")
    );

    let printed = Config::explained(&sources(&file, &text, &[], &[])).unwrap();
    assert!(printed.contains("\ntoken = \"***\"  # "), "{printed}");
    assert!(printed.contains("\ntoken = \"$token\"  # "), "a column of that name is none: {printed}");
    let served = config.redacted().to_string();
    let set = ["catalog.lab.token=s3cret", "catalog.lab.poll_secs=7"];
    let assigned = Config::explained(&sources(&file, FILE, &[], &set)).unwrap();
    assert!(assigned.contains("# --set catalog.lab.token=***\n"), "{assigned}");
    assert!(assigned.contains("# --set catalog.lab.poll_secs=7\n"), "{assigned}");
    let whole = [r#"catalog.lab={base = "https://h/ermrest/catalog/2", token = "s3cret"}"#];
    let assigned_whole = Config::explained(&sources(&file, FILE, &[], &whole)).unwrap();
    let refused = told(FILE, &["catalog.lab.tokens.token=s3cret"]).join("\n");
    let number = told(&FILE.replace("base =", "token = 12345\nbase ="), &[]).join("\n");
    assert!(number.contains("token: this is an integer, a string is expected"), "{number}");
    for text in [printed, served, assigned, assigned_whole, refused, number] {
        assert!(!text.contains("s3cret") && !text.contains("12345"), "{text}");
    }
}

/// What is printed is a configuration, and the same one.
#[test]
fn columns_survive_being_printed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let first = Config::load(&sources(&file, FILE, &[], &[])).unwrap();
    let printed = Config::explained(&sources(&file, FILE, &[], &[])).unwrap();
    assert_eq!(Config::load(&sources(&file, &printed, &[], &[])).unwrap(), first, "{printed}");
}
