//! The cases of the suite against its own model, in every flavor: what it asks of stores that lack something can be had.

use orchestrator_provenance::row::Rows;
use orchestrator_provenance::store::{Ask, Found, Question, Store, StoreError, Written};

use super::{Flavor, Model, run_cases};

struct ModelStore(Model);

impl Ask for ModelStore {
    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        Ok(self.0.read(question))
    }
}

impl Store for ModelStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<Written, StoreError> {
        self.0.write(groups).ok_or_else(|| StoreError::Refused("a row that can never be stored".into()))
    }
}

#[tokio::test]
async fn every_flavor_can_be_had() {
    let full = Flavor::FULL;
    for flavor in [
        full,
        Flavor { with_path: false, ..full },
        Flavor { locations: false, urls_unique: false, exact_dates: false, counts_relations: false, ..full },
    ] {
        // No random sequences: the model agrees with itself.
        run_cases(flavor, &async || ModelStore(Model::new(flavor))).await;
    }
}
