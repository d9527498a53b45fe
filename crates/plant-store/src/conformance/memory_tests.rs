//! The suite against a repository in memory, whose futures are always ready.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use proptest::prelude::ProptestConfig;
use proptest::proptest;
use tokio::runtime::Builder;

use super::model::KeptEvents;
use super::{StoreUnderTest, model};
use crate::{MemoryRepository, PlantRepository};

/// Plants that outlive their repositories.
#[derive(Default)]
struct Memory(MemoryRepository);

#[async_trait]
impl StoreUnderTest for Memory {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        Arc::new(self.0.reopened())
    }
}

#[test]
fn a_repository_that_never_waits_keeps_the_contract() {
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let runtime = runtime.enable_time().build().expect("a runtime");
        runtime.block_on(super::check(async || Memory::default()));
    }
}

#[test]
fn a_repository_that_never_waits_is_as_the_model() {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    proptest!(ProptestConfig::with_cases(64), |(operations in model::operations(40))| {
        let kept = KeptEvents::AtLeast(usize::MAX);
        runtime.block_on(model::check(&Memory::default(), &operations, kept));
    });
}

/// A store that never opens, like one whose database does not answer.
struct Nowhere;

#[async_trait]
impl StoreUnderTest for Nowhere {
    async fn open(&self) -> Arc<dyn PlantRepository> {
        pending().await
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a_created_plant_reads_back_exactly did not come to its end")]
async fn a_claim_that_does_not_end_is_named() {
    super::check(async || Nowhere).await;
}
