//! Consoles of children in a tree.

use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, Shutdown, Strategy, SupervisorSpec, mailbox,
    testing::TestTree,
};
use serde_json::json;

use super::*;

struct Answering;

impl Child for Answering {}

#[derive(serde::Deserialize)]
struct Echo {
    text: String,
}

impl Message for Echo {
    type Result = ConsoleReply<String>;
}

impl Handle<Echo> for Answering {
    fn handle(&mut self, echo: Echo, _: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply<String>> {
        Handled::now(Ok(echo.text))
    }
}

#[derive(serde::Deserialize)]
struct Hang {}

impl Message for Hang {
    type Result = ConsoleReply<()>;
}

impl Handle<Hang> for Answering {
    fn handle(&mut self, _: Hang, cx: &mut ChildCx<'_, Self>) -> Handled<Self, ConsoleReply<()>> {
        cx.atomically(std::future::pending(), |_, (), _| Ok(()))
    }
}

#[test]
fn consoles_answer_or_time_out() {
    let (answering, slot) = mailbox::<Answering>(4);
    let console = Console::new([
        ConsoleVerb::new::<Echo, _>("echo", Effect::Reads, VerbSchemas::default, answering.recipient()),
        ConsoleVerb::new::<Hang, _>("hang", Effect::Changes, VerbSchemas::default, answering.recipient()),
    ]);
    let child = ChildSpec::worker("console", Factory::actor(slot, |_| Ok(Answering)))
        .shutdown(Shutdown::After(Duration::from_millis(1)))
        .attach(console);
    let (_, slot) = mailbox::<Answering>(4);
    let other = ChildSpec::worker("a", Factory::actor(slot, |_| Ok(Answering)));
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(child).child(other), async |tree| {
        let ask =
            async |path: &str, verb: &str, args: Value| Console::verb(&tree, path, verb)?.call(args).await;
        assert_eq!(ask("console", "echo", json!({ "text": "é" })).await.unwrap(), Ok(json!("é")));
        for args in [json!({ "text": 1 }), json!(null), json!([])] {
            let invalid = ask("console", "echo", args).await.unwrap();
            assert!(matches!(invalid, Err(ConsoleError::BadArguments(_))), "{invalid:?}");
        }
        assert_eq!(Console::verb(&tree, "console", "echo").unwrap().effect(), Effect::Reads);
        let unknown = Console::verb(&tree, "console", "peek").unwrap_err().to_string();
        assert_eq!(unknown, "unknown verb: this child answers echo, hang");
        for path in ["a", "nowhere"] {
            let text = Console::verb(&tree, path, "echo").unwrap_err().to_string();
            assert_eq!(text, format!("`{path}` has no console; these have: test/console"));
        }
        let all = Console::all_verbs(&tree);
        let all: Vec<_> = all.iter().map(|(path, verb)| (path.as_str(), verb.name())).collect();
        assert_eq!(all, [("test/console", "echo"), ("test/console", "hang")]);
        let late = ask("console", "hang", json!({})).await.unwrap_err();
        assert!(matches!(late, ConsoleCallError::Ask(AskError::TimedOut(_))), "{late:?}");
    });
}
