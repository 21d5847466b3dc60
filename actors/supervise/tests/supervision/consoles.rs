//! A child answers operator verbs of its own, in time or not at all.

use crate::probe::*;
use orchestrator_supervise::{
    Answer, AskError, Child, ChildCx, ChildSpec, ConsoleCallError, ConsoleError, ConsoleReply,
    ConsoleRequest, Factory, Handle, Strategy, SupervisorSpec, mailbox, testing::TestTree,
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

struct Desk;

impl Child for Desk {}

impl Handle<ConsoleRequest> for Desk {
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
    let (desk, slot) = mailbox::<Desk>(4);
    let child = ChildSpec::worker("desk", Factory::actor(slot, |_| Ok(Desk)))
        .shutdown(deadline(1))
        .console(desk.recipient());
    TestTree::run(spec().child(child).child(noting("a", &Journal::default()).1), async |tree| {
        let ask = async |path: &str, verb: &str| {
            let args = serde_json::json!([1, 2]);
            tree.console(path, ConsoleRequest { verb: verb.to_owned(), args }).await
        };
        assert_eq!(ask("desk", "echo").await.unwrap(), Ok(serde_json::json!([1, 2])));
        let unknown = ask("desk", "peek").await.unwrap();
        assert_eq!(unknown, Err(ConsoleError::UnknownVerb("echo, hang".to_owned())));
        for path in ["a", "nowhere"] {
            let text = ask(path, "echo").await.unwrap_err().to_string();
            assert_eq!(text, format!("`{path}` has no console; these have: test/desk"));
        }
        assert!(tree.node("desk").unwrap().console && !tree.node("a").unwrap().console);
        let late = ask("desk", "hang").await.unwrap_err();
        assert!(matches!(late, ConsoleCallError::Ask(AskError::TimedOut(_))), "{late:?}");
    });
}
