//! Tests of nested sections, and of columns with free names and types, which only catalogs have.

use serde_json::{Value, json};

use super::super::{Config, Sources};
use crate::subsystems::Section;

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

/// Sources with the file `text`, variables without their prefix, and `--set`.
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
        ..Sources::default()
    }
}

fn load(variables: &[(&str, &str)], sets: &[&str]) -> Result<Value, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sources = sources(&file, FILE, variables, sets);
    let config = Config::load(&sources).map_err(|error| error.to_string())?;
    Ok(config.to_json()["catalog"][0]["rule"].clone())
}

/// Shows the name of the file as FILE.
fn errors(text: &str, sets: &[&str]) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Config::load(&sources(&file, text, &[], sets)).unwrap_err().to_string();
    let name = file.path().display().to_string();
    error.lines().skip(1).map(|line| line.replace(&name, "FILE")).collect()
}

#[test]
fn columns_have_values_of_any_type_and_keep_their_names() {
    let rules = load(&[], &[]).unwrap();
    assert_eq!(rules[0]["name"], "second", "the order of the file is kept");
    assert_eq!(
        rules[1]["claim"]["set"],
        json!({ "State": "claimed", "claimed by": "$token", "until": "$now+60s" })
    );
    let done = json!({ "n": 1, "ratio": 0.5, "flag": true, "list": [1, "x"], "info": { "a": { "b": 2 } } });
    assert_eq!(rules[1]["done"], done);
}

#[test]
fn a_column_of_a_rule_can_be_set_by_variables_and_arguments() {
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
    assert_eq!(rules[1]["claim"]["set"]["State"], "Taken", "the configured column is set");
    assert_eq!(rules[1]["claim"]["set"]["claimed by"], "me");
    assert_eq!((&rules[0]["done"], &rules[0]["key"]), (&json!({ "Result": "$result.x" }), &json!("id")));

    let error = load(&[], &["catalog.lab.rule.third.limit=7"]).unwrap_err();
    assert!(error.contains(r#"no entry is named "third"; the entries are convert.all, second"#), "{error}");
}

#[test]
fn column_values_that_json_cannot_represent_are_refused() {
    let text = format!(
        "{FILE}[catalog.rule.fail]\nday = 1979-05-27\nnone = nan\ngreat = 99999999999999999999\nin = [[1979-05-27]]\nfine = 1\n"
    );
    let expected = [
        r#"FILE:18: catalog.lab.rule."convert.all".fail.day: this is a date or time; write it in quotes"#,
        r#"FILE:19: catalog.lab.rule."convert.all".fail.none: infinity and NaN are not allowed"#,
        r#"FILE:20: catalog.lab.rule."convert.all".fail.great: integers are limited to 64 bits; write it in quotes"#,
        r#"FILE:21: catalog.lab.rule."convert.all".fail.in[0][0]: this is a date or time; write it in quotes"#,
    ];
    assert_eq!(errors(&text, &[]), expected);
}

#[test]
fn errors_in_a_rule_have_the_position_of_the_key() {
    let text = FILE.replace("lease_secs = 60", "lease_secs = 61").replace("n = 1,", "n = \"$errr\",");
    let expected = [
        r#"FILE:14: catalog.lab.rule."convert.all".lease_secs: 61: the claim says 60 s: leave it out, or write the same"#,
        r#"FILE:16: catalog.lab.rule."convert.all".done.n: "$errr": $errr is not known: write $token, $now, $now+15m, $null, $error, $row.COLUMN, $row.COLUMN+1 or $result.FIELD; write $$ for a plain $"#,
    ];
    assert_eq!(errors(&text, &[]), expected);
}

#[test]
fn a_token_is_accepted_and_never_shown() {
    let text = FILE
        .replace("base =", "token = \"s3cret\"\nbase =")
        .replace("{ n = 1,", "{ n = 1, token = \"$token\",");
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = Config::load(&sources(&file, &text, &[], &[])).unwrap();
    let Section::Catalog(catalogs) = &config.sections[0] else { panic!("{config:?}") };
    let token = catalogs[0].token.as_ref().map(orchestrator_subsystem::Secret::expose);
    assert_eq!(token, Some("s3cret"));

    let printed = Config::print_effective(&sources(&file, &text, &[], &[])).unwrap();
    assert!(printed.contains("\ntoken = \"***\"  # "), "{printed}");
    assert!(printed.contains("\ntoken = \"$token\"  # "), "a column called token is no secret: {printed}");
    let served = config.redacted().to_string();
    let set = ["catalog.lab.token=s3cret", "catalog.lab.poll_secs=7"];
    let assigned = Config::print_effective(&sources(&file, FILE, &[], &set)).unwrap();
    assert!(assigned.contains("# --set catalog.lab.token=***\n"), "{assigned}");
    assert!(assigned.contains("# --set catalog.lab.poll_secs=7\n"), "{assigned}");
    let whole = [r#"catalog.lab={base = "https://h/ermrest/catalog/2", token = "s3cret"}"#];
    let assigned_whole = Config::print_effective(&sources(&file, FILE, &[], &whole)).unwrap();
    let refused = errors(FILE, &["catalog.lab.tokens.token=s3cret"]).join("\n");
    let number = errors(&FILE.replace("base =", "token = 12345\nbase ="), &[]).join("\n");
    assert!(number.contains("token: this is an integer, expected a string"), "{number}");
    for text in [printed, served, assigned, assigned_whole, refused, number] {
        assert!(!text.contains("s3cret") && !text.contains("12345"), "{text}");
    }
}

#[test]
fn a_printed_configuration_with_columns_loads_as_the_same() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let first = Config::load(&sources(&file, FILE, &[], &[])).unwrap();
    let printed = Config::print_effective(&sources(&file, FILE, &[], &[])).unwrap();
    let again = Config::load(&sources(&file, &printed, &[], &[])).unwrap();
    // The printed file sets the address of the endpoint.
    assert_eq!(Config { admin_binding: first.admin_binding, ..again }, first, "{printed}");
}
