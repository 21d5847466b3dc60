//! Servers that answer with whatever comes to mind: nothing of it is taken for a success, and nothing ends the child.

use std::sync::{Arc, Mutex};

use orchestrator_harness::rounds;
use orchestrator_producer::edge::faktory::{Faktory, Flow, PushError, Server};
use orchestrator_supervise::SupervisorSpec;

use super::{
    house::*,
    impostor::{Impostor, honest},
};

/// Replies to a push that say nothing about its jobs.
const STRANGE: &[&str] = &[
    "$1099511627776\r\n{}\r\n",
    "$8388609\r\n{}\r\n",
    "$-5\r\n",
    "$99999999999999999999999999\r\n",
    "$2\r\n{}",
    "$2\r\n{}xx",
    "$3\r\n{}\r\n",
    "$2\n{}\n",
    "+OK\r\n",
    ":1\r\n",
    "*1\r\n+OK\r\n",
    "$-1\r\n",
    "$4\r\nnull\r\n",
    "$12\r\n{\"abc\":\"no\"}\r\n",
    "$9\r\n{\"abc\":1}\r\n",
    "{}\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "\r\n",
    "",
];

#[test]
fn strange_replies_to_a_push_say_nothing_about_its_jobs() {
    let replies: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let impostor = hostile_to("PUSHB ", &replies);
    let (faktory, spec) = impatiently_to(&impostor);
    TestTree::run(spec, async |tree| {
        for reply in STRANGE {
            replies.lock().unwrap().push(reply.as_bytes().to_vec());
            let outcome = faktory.push(0, batch(0..3)).await;
            assert!(matches!(&outcome, Err(PushError::Ambiguous(_))), "{reply:?}: {outcome:?}");
        }
        let wanted = STRANGE.len() as i64;
        assert_eq!((figure(&tree, "accepted"), figure(&tree, "ambiguous")), (0, wanted * 3));
        // An honest one in between, over the same child.
        replies.lock().unwrap().push(b"$2\r\n{}\r\n".to_vec());
        assert!(faktory.push(0, batch(0..3)).await.is_ok());
    });
}

#[test]
fn random_replies_are_never_taken_for_a_success() {
    let replies: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let impostor = hostile_to("PUSHB ", &replies);
    let (faktory, spec) = impatiently_to(&impostor);
    TestTree::run(spec, async |tree| {
        for seed in 0..rounds("ORCHESTRATOR_TEST_SEEDS", 40).min(400) {
            let mut random = fastrand::Rng::with_seed(seed);
            replies.lock().unwrap().push(noise(&mut random));
            let outcome = faktory.push(0, batch(0..3)).await;
            let right = matches!(&outcome, Err(PushError::Ambiguous(_) | PushError::Refused(_)));
            assert!(right, "seed {seed}: {outcome:?}");
        }
        assert_eq!(figure(&tree, "accepted"), 0);
    });
}

#[test]
fn noise_in_any_place_of_the_handshake_is_a_link_that_is_down() {
    for place in ["", "HELLO ", "INFO"] {
        let replies: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let mut random = fastrand::Rng::with_seed(7);
        let impostor = hostile_to(place, &replies);
        replies.lock().unwrap().extend((0..4).map(|_| noise(&mut random)));
        let (faktory, spec) = impatiently_to(&impostor);
        TestTree::run(spec, async |tree| {
            eventually("all noise was heard", || replies.lock().unwrap().is_empty()).await;
            eventually("the link is down", || link(&tree, 0).state == "down").await;
            assert!(faktory.info().await.is_err());
        });
    }
}

/// Some of what is said looks like the beginning of a reply that never ends.
fn impatiently_to(impostor: &Impostor) -> (Faktory, SupervisorSpec) {
    let server = Server::new(&impostor.url(), None, None).unwrap();
    with(server.patience(IMPATIENT), Flow::default())
}

/// Honest, but for lines that begin with `place`: those are answered with the last of `replies`, after which it hangs up; an empty
/// list hangs up at once.
fn hostile_to(place: &'static str, replies: &Arc<Mutex<Vec<Vec<u8>>>>) -> Impostor {
    let replies = replies.clone();
    Impostor::start(move |line| {
        let hit = if place.is_empty() { line.is_empty() } else { line.starts_with(place) };
        if hit { replies.lock().unwrap().pop() } else { honest(line) }
    })
}

/// Bytes that look a little like replies, and are no success.
fn noise(random: &mut fastrand::Rng) -> Vec<u8> {
    let alphabet = b"+-$:*0123456789{}\"HIv2OK\r\n\r\n\0\xff";
    let length = random.usize(0..200);
    let mut bytes: Vec<u8> = (0..length).map(|_| alphabet[random.usize(..alphabet.len())]).collect();
    if random.bool() {
        bytes.iter_mut().for_each(|byte| *byte = random.u8(..));
    }
    bytes
}
