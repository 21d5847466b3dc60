//! Consoles of children.

use crate::probe::*;
use orchestrator_supervise::{
    Answer, AskError, Child, ChildCx, ChildSpec, ConsoleCallError, ConsoleError, ConsoleReply,
    ConsoleRequest, Factory, Handle, Strategy, SupervisorSpec, mailbox, testing::TestTree,
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

struct Console;

impl Child for Console {}

impl Handle<ConsoleRequest> for Console {
    fn handle(&mut self, request: ConsoleRequest, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ConsoleReply> {
        match request.verb.as_str() {
            "echo" => Answer::now(Ok(request.args)),
            "hang" => cx.atomically(std::future::pending(), |_, (), _| Ok(serde_json::Value::Null)),
            _ => Answer::now(Err(ConsoleError::UnknownVerb("echo, hang".to_owned()))),
        }
    }
}

#[test]
fn consoles_answer_or_time_out() {
    let (console, slot) = mailbox::<Console>(4);
    let child = ChildSpec::worker("console", Factory::actor(slot, |_| Ok(Console)))
        .shutdown(deadline(1))
        .console(console.recipient());
    TestTree::run(spec().child(child).child(journaling("a", &Journal::default()).1), async |tree| {
        let ask = async |path: &str, verb: &str| {
            let args = serde_json::json!([1, 2]);
            tree.console(path, ConsoleRequest { verb: verb.to_owned(), args }).await
        };
        assert_eq!(ask("console", "echo").await.unwrap(), Ok(serde_json::json!([1, 2])));
        let unknown = ask("console", "peek").await.unwrap();
        assert_eq!(unknown, Err(ConsoleError::UnknownVerb("echo, hang".to_owned())));
        for path in ["a", "nowhere"] {
            let text = ask(path, "echo").await.unwrap_err().to_string();
            assert_eq!(text, format!("`{path}` has no console; these have: test/console"));
        }
        assert!(tree.node("console").unwrap().console && !tree.node("a").unwrap().console);
        let late = ask("console", "hang").await.unwrap_err();
        assert!(matches!(late, ConsoleCallError::Ask(AskError::TimedOut(_))), "{late:?}");
    });
}
