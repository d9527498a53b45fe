//! The store that a claim is about, and what claims do with it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plant_domain::{NewPlant, PlantId};
use tokio::task::JoinSet;

use crate::{Created, PlantRepository, Preconditions, StoredPlant};

/// The place of a repository: a folder, for example, or a database schema.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// Opens the repository. Called again only after the previous one was closed and dropped.
    async fn open(&self) -> Arc<dyn PlantRepository>;

    /// Ends the repository as a kill would: data that is not on disk is lost. The default closes it instead.
    async fn kill(&self, repository: Arc<dyn PlantRepository>) {
        repository.close().await.expect("closes");
    }

    /// Ends the repository, and replaces the store by a restored backup of it. Returns whether it did: the default, for a
    /// store without backups, only closes the repository.
    async fn restore(&self, repository: Arc<dyn PlantRepository>) -> bool {
        repository.close().await.expect("closes");
        false
    }

    /// Checks what the closed repository has left on disk, beyond what its methods show.
    async fn verify(&self) {}
}

/// The deadline of a claim: many times what the slowest one takes on a slow disk.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);

pub(super) fn new_plant(id: i64, name: &str, tag: Option<&str>) -> NewPlant {
    NewPlant::new(id, name, tag.map(str::to_owned)).expect("the suite's plants are valid")
}

pub(super) async fn create(
    repository: &Arc<dyn PlantRepository>,
    new_plant: &NewPlant,
) -> StoredPlant {
    let id = new_plant.id();
    let created = repository.create(new_plant.clone(), None).await;
    let Created { stored, is_current } =
        created.unwrap_or_else(|error| panic!("creating plant {id} failed: {error}"));
    assert!(is_current, "plant {id} is new");
    stored
}

pub(super) async fn get(repository: &Arc<dyn PlantRepository>, id: PlantId) -> Option<StoredPlant> {
    let found = repository.get(id).await;
    found.unwrap_or_else(|error| panic!("reading plant {id} failed: {error}"))
}

pub(super) async fn put(
    repository: &Arc<dyn PlantRepository>,
    new_plant: &NewPlant,
) -> StoredPlant {
    let put = repository.put(new_plant.clone(), Preconditions::default()).await;
    put.unwrap_or_else(|error| panic!("putting plant {} failed: {error}", new_plant.id())).stored
}

/// Runs a future for each number at the same time, in a task of its own.
pub(super) fn at_once<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    repository: &Arc<dyn PlantRepository>,
    numbers: impl Iterator<Item = i64>,
    act: impl Fn(Arc<dyn PlantRepository>, i64) -> F,
) -> JoinSet<T> {
    numbers.map(|number| act(Arc::clone(repository), number)).collect()
}
