//! The cases of the suite against its own model, in every flavor: what it asks of stores that lack something can be had.

use orchestrator_provenance::row::Rows;
use orchestrator_provenance::store::{Found, Question, Store, StoreError, Written};

use super::suite::{self, Flavor, Model};

struct ModelStore(Model);

impl Store for ModelStore {
    async fn write(&mut self, groups: &[Rows]) -> Result<Written, StoreError> {
        self.0.write(groups).ok_or_else(|| StoreError::Refused("a row that can never be stored".into()))
    }

    async fn read(&mut self, question: &Question) -> Result<Found, StoreError> {
        Ok(self.0.read(question))
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
        suite::run_cases(flavor, &async || ModelStore(Model::new(flavor))).await;
    }
}
