//! Checkpoints: the contract, and several repositories that want the same one.

use plant_postgres::PostgresRepository;
use plant_store::{Checkpoint, Checkpoints as _, conformance};
use plantd_tests::DEADLINE;
use tokio::time::timeout;

use crate::schema::Schema;

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_keep_the_contract() {
    let schema = Schema::new();
    conformance::check_checkpoints(async || schema.open().await).await;
}

async fn hold(repository: &PostgresRepository) -> Checkpoint {
    repository.hold("shop").await.expect("reads")
}

async fn save(repository: &PostgresRepository, content: u8) -> bool {
    repository.save("shop", vec![content]).await.expect("answers")
}

async fn wait_until_held(repository: &PostgresRepository) -> Vec<u8> {
    let holding = async {
        loop {
            // A repository whose session was ended may fail once.
            match repository.hold("shop").await {
                Ok(Checkpoint { is_held: true, content }) => return content,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    timeout(DEADLINE, holding).await.expect("it is free")
}

#[tokio::test(flavor = "multi_thread")]
async fn another_repository_takes_a_checkpoint_only_when_the_session_that_holds_it_has_ended() {
    let schema = Schema::new();
    let [first, second] = schema.open_two().await;
    assert!(hold(&first).await.is_held);
    assert!(save(&first, 1).await);
    for _ in 0..2 {
        assert_eq!(hold(&second).await, Checkpoint { is_held: false, content: vec![1] });
        assert!(!save(&second, 2).await);
        second.retain(Vec::new()).await.expect("forgets what it holds");
        assert_eq!(hold(&first).await, Checkpoint { is_held: true, content: vec![1] });
    }
    let ended = schema.query(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks, SCHEMA.checkpoints \
         WHERE locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = holder",
    );
    assert_eq!(ended, "1");
    assert_eq!(wait_until_held(&second).await, [1]);
    assert!(!save(&first, 3).await);
    assert!(save(&second, 4).await);
    drop(second);
    assert_eq!(wait_until_held(&first).await, [4]);
    assert!(save(&first, 5).await);
}
