//! Consoles of children.

use crate::probe::*;
use orchestrator_supervise::{
    AskError, Child, ChildCx, ChildSpec, ConsoleCallError, ConsoleError, ConsoleReply, ConsoleVerb, Effect,
    Factory, Handle, Handled, Message, Strategy, SupervisorSpec, VerbSchemas, mailbox, testing::TestTree,
};
use serde_json::{Value, json};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

struct Console;

impl Child for Console {}

#[derive(serde::Deserialize)]
struct Echo {
    text: String,
}

impl Message for Echo {
    type Result = ConsoleReply<String>;
}

impl Handle<Echo> for Console {
    fn handle(&mut self, echo: Echo, _: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply<String>> {
        Handled::now(Ok(echo.text))
    }
}

#[derive(serde::Deserialize)]
struct Hang {}

impl Message for Hang {
    type Result = ConsoleReply<()>;
}

impl Handle<Hang> for Console {
    fn handle(&mut self, _: Hang, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply<()>> {
        cx.atomically(std::future::pending(), |_, (), _| Ok(()))
    }
}

#[test]
fn consoles_answer_or_time_out() {
    let (console, slot) = mailbox::<Console>(4);
    let child =
        ChildSpec::worker("console", Factory::actor(slot, |_| Ok(Console))).shutdown(deadline(1)).console([
            ConsoleVerb::new::<Echo, _>("echo", Effect::Reads, VerbSchemas::default, console.recipient()),
            ConsoleVerb::new::<Hang, _>("hang", Effect::Changes, VerbSchemas::default, console.recipient()),
        ]);
    TestTree::run(spec().child(child).child(journaling("a", &Journal::default()).1), async |tree| {
        let ask = async |path: &str, verb: &str, args: Value| tree.console_verb(path, verb)?.call(args).await;
        assert_eq!(ask("console", "echo", json!({ "text": "é" })).await.unwrap(), Ok(json!("é")));
        for args in [json!({ "text": 1 }), json!(null), json!([])] {
            let invalid = ask("console", "echo", args).await.unwrap();
            assert!(matches!(invalid, Err(ConsoleError::BadArguments(_))), "{invalid:?}");
        }
        assert_eq!(tree.console_verb("console", "echo").unwrap().effect(), Effect::Reads);
        let unknown = tree.console_verb("console", "peek").unwrap_err().to_string();
        assert_eq!(unknown, "unknown verb: this child answers echo, hang");
        for path in ["a", "nowhere"] {
            let text = tree.console_verb(path, "echo").unwrap_err().to_string();
            assert_eq!(text, format!("`{path}` has no console; these have: test/console"));
        }
        let all = tree.console_verbs();
        let all: Vec<_> = all.iter().map(|(path, verb)| (path.as_str(), verb.name())).collect();
        assert_eq!(all, [("test/console", "echo"), ("test/console", "hang")]);
        assert!(tree.node("console").unwrap().console && !tree.node("a").unwrap().console);
        let late = ask("console", "hang", json!({})).await.unwrap_err();
        assert!(matches!(late, ConsoleCallError::Ask(AskError::TimedOut(_))), "{late:?}");
    });
}
