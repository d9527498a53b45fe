//! The repository in PostgreSQL: the contract, and what is its own.

use std::sync::Arc;

use async_trait::async_trait;
use plant_store::conformance::model::KeptEvents;
use plant_store::conformance::{self, Place, model};
use plant_store::{PlantRepository, PostgresConfig, PostgresRepository};
use proptest::prelude::ProptestConfig;
use proptest::proptest;

const FEW_EVENTS: usize = 16;

struct Schema(PostgresConfig);

impl Schema {
    fn new() -> Self {
        let mut config = PostgresConfig::new(test_postgres::shared().url().parse().expect("a URL"));
        config.schema = test_postgres::fresh_schema_name().parse().expect("a name");
        Self(config)
    }
}

#[async_trait]
impl Place for Schema {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        Arc::new(PostgresRepository::open(&self.0).await.expect("opens"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_keeps_the_contract() {
    conformance::check(async || Schema::new()).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn random_operations_do_as_the_model_does(operations in model::operations(40)) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let mut schema = Schema::new();
        schema.0.keep_events = FEW_EVENTS as u64;
        runtime.block_on(model::check(&schema, &operations, KeptEvents::AtLeast(FEW_EVENTS)));
    }
}
