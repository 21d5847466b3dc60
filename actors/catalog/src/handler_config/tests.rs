//! Problems of handler configurations.

use super::*;

fn of(kind: HandlerKind) -> HandlerConfig {
    HandlerConfig { kind, ..HandlerConfig::default() }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn command(argv: &[&str]) -> HandlerConfig {
    HandlerConfig { argv: CommandLine::new(texts(argv)), ..of(HandlerKind::Command) }
}

fn http(url: &str) -> HandlerConfig {
    HandlerConfig { url: Some(WebhookUrl::new(url)), ..of(HandlerKind::Http) }
}

#[test]
fn no_handler_is_the_default() {
    let config: HandlerConfig = serde_json::from_str("{}").expect("all keys have defaults");
    assert_eq!(config, of(HandlerKind::None));
    assert!(matches!(config.handler("catalog.a.b".into(), None), Ok(AnyHandler::Nothing)));
}

#[test]
fn keys_and_values_match_the_configuration() {
    let json = r#"{"kind": "command", "argv": ["true"], "later_codes": [3], "grace_ms": 10}"#;
    let config: HandlerConfig = serde_json::from_str(json).expect("a handler");
    let Ok(AnyHandler::Command(command)) = config.handler("catalog.a.b".into(), None) else {
        panic!("a command")
    };
    assert_eq!((command.exit_codes.later, command.grace), (vec![3], Duration::from_millis(10)));
    for wrong in [r#"{"kind": "shell"}"#, r#"{"argument": []}"#, r#"{"done_codes": [256]}"#] {
        serde_json::from_str::<HandlerConfig>(wrong).expect_err(wrong);
    }
}

#[test]
fn an_ambiguous_command_is_refused() {
    for (config, begins) in [
        (command(&[]), Some("handler.argv = []: name a program")),
        (command(&["", "x"]), Some("handler.argv = []: name a program")),
        (command(&["./work"]), Some("handler.argv = ./work: it is not clear from which directory")),
        (command(&["work", "a\0b"]), Some("handler.argv = ..: a program cannot be handed a NUL")),
        (command(&["work"]), None),
        (command(&["/opt/work", "./x", ""]), None),
    ] {
        let wrong = config.check();
        assert_eq!(wrong.len(), usize::from(begins.is_some()), "{wrong:?}");
        assert!(wrong.iter().all(|text| text.starts_with(begins.unwrap_or_default())), "{wrong:?}");
        assert_eq!(config.handler("catalog.a.b".into(), None).is_err(), begins.is_some());
    }
    let twice = HandlerConfig { dead_codes: vec![75], ..command(&["work"]) };
    assert!(twice.check()[0].contains("75 is there twice"));
}

#[test]
fn a_webhook_shows_no_secret() {
    for (config, expected) in [
        (of(HandlerKind::Http), "handler.url = ..: it is missing"),
        (http("http://me:secret@a/"), "handler.url = ..: it holds a user"),
        (http("secret"), "handler.url = ..: "),
        (
            HandlerConfig { headers: vec![HeaderLine::new("Authorization: secret")], ..http("http://a") },
            "handler.headers = ..: `authorization` is a secret",
        ),
    ] {
        let wrong = config.check();
        assert!(wrong[0].starts_with(expected) && !wrong[0].contains("secret@"), "{wrong:?}");
        assert_eq!(wrong.len(), 1, "{wrong:?}");
    }
    assert!(http("http://a:1/b").check().is_empty());
    let config = HandlerConfig { ca_file: Some("/nowhere/ca.pem".into()), ..http("https://a") };
    assert!(config.check().is_empty(), "the file may come");
    let text = config.handler("catalog.a.b".into(), None).expect_err("there is no file");
    assert!(text.starts_with("handler.ca_file = /nowhere/ca.pem: cannot be read"), "{text}");
}

#[test]
fn a_job_has_an_attribute_path() {
    let named = |attr_path: &str, payload: &str| HandlerConfig {
        attr_path: Some(attr_path.to_owned()),
        payload: Some(payload.to_owned()),
        ..of(HandlerKind::Queue)
    };
    assert!(named("$row.id", "$row.file --fast").check().is_empty());
    assert!(of(HandlerKind::Queue).check()[0].starts_with("handler.attr_path = ..: it is missing"));
    assert!(named("$id", "").check()[0].starts_with("handler.attr_path = $id: $id is not known"));
    assert!(named("a", "$result.x").check()[0].starts_with("handler.payload = $result.x: "));
    let twice = HandlerConfig { dead_codes: vec![75], ..named("$row.id", "") };
    assert!(twice.check()[0].contains("75 is there twice"));
}

#[test]
fn keys_of_another_kind_are_refused() {
    let config = HandlerConfig { kind: HandlerKind::None, cwd: Some("/tmp".into()), ..command(&["work"]) };
    let config = HandlerConfig { attr_path: Some("a".to_owned()), grace_ms: 1, dead_codes: vec![], ..config };
    let wrong = config.check();
    for key in ["argv", "cwd", "grace_ms", "done_codes, later_codes, dead_codes", "attr_path"] {
        let begins = format!("handler.{key} = ..: it is for kind = ");
        assert!(wrong.iter().any(|text| text.starts_with(&begins)), "{key}: {wrong:?}");
    }
    assert_eq!(wrong.len(), 5, "{wrong:?}");
    let config = HandlerConfig { headers_file: Some("h".into()), ..command(&["work"]) };
    assert_eq!(config.check().len(), 1);
}
