//! Invalid stencil in strict mode. `tests/producer/strict.rs` compares all other rules with a model of the
//! original.

use super::*;
use crate::{advance::Halt, id::Id, stencil::ConfigDocument};

#[test]
fn an_invalid_stencil_halts_the_producer_at_its_turn() {
    let readable =
        Stencil { id: Id([1; 12]), tcn: 4, rootstock_tcn: 2, scion_tcn: 2, state: State::New, cursor: None };
    let invalid = InvalidDocument {
        collection: "stencils".to_owned(),
        id: "b".to_owned(),
        field: "state",
        found: "missing".to_owned(),
        wanted: "an integer",
    };
    let events = [
        Event::Started,
        Event::ConfigRead(ConfigDocument { completed_tcn: 3, max_tcn: 4 }),
        Event::Listed(vec![Ok(readable), Err(invalid.clone())]),
        Event::Written,
        Event::Pushed { jobs: 6, cursor: None },
    ];
    let mut machine = Strict::new(["arborescent".to_owned()].into());
    let before: Vec<_> = events.into_iter().map(|event| machine.on(event)).collect();
    assert!(!before.iter().any(|action| matches!(action, Action::Halt(_))), "{before:?}");
    assert_eq!(machine.on(Event::Written), Action::Halt(Halt::InvalidDocument(invalid)));
}
