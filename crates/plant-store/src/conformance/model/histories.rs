//! Compares the history of each plant.

use plant_domain::PlantId;

use super::operations::IDS;
use super::{Change, KeptEvents, Model, UNUSED_ID};
use crate::{
    EventKind, HistoryPage, HistoryRequest, PastChange, PlantRepository, Revision, StoreError,
    StoredPlant,
};

impl Change {
    fn to_past_change(&self) -> PastChange {
        PastChange {
            revision: self.event.revision(),
            kind: self.event.kind,
            at: self.event.at,
            by: self.event.by.clone(),
            plant: self.plant.clone(),
        }
    }
}

impl Model {
    /// Compares the histories and the old versions of all plants. `step` chooses which of many similar reads are made.
    pub(super) async fn check_histories(
        &self,
        repository: &dyn PlantRepository,
        kept: KeptEvents,
        step: usize,
    ) {
        for id in IDS.map(PlantId::from) {
            for limit in [1, 3, 1_000] {
                self.check_history(repository, id, None, limit, kept).await;
            }
            // A revision of any plant, and the neighbors of all revisions.
            let of_any_change = self.changes.get(step.wrapping_mul(7) % self.changes.len().max(1));
            let newest = self.changes.last().map(|change| change.event.revision().get() + 1);
            let of_any_change = of_any_change.map(|change| change.event.revision().get());
            for before in [of_any_change, newest, Some(0), Some(1), Some(u64::MAX)] {
                let before = before.map(Revision::from);
                self.check_history(repository, id, before, 1 + step % 4, kept).await;
            }
        }
        let unused = PlantId::from(UNUSED_ID);
        for before in [None, Some(Revision::from(1)), Some(Revision::from(u64::MAX))] {
            let request = HistoryRequest { id: unused, before, limit: 1 };
            let history = repository.history(request).await;
            let is_refused = match before {
                Some(before) => is_about_version(&history, unused, before),
                None => matches!(history, Err(StoreError::NoSuchPlant(of)) if of == unused),
            };
            assert!(is_refused, "{history:?}");
            let revision = before.unwrap_or(Revision::from(2));
            let version = repository.version(unused, revision).await;
            assert!(is_about_version(&version, unused, revision), "{version:?}");
        }
        self.check_versions(repository, kept).await;
    }

    /// The changes of a plant, newest first, and how many of them are kept for sure.
    fn changes_of(&self, id: PlantId, kept: KeptEvents) -> (Vec<PastChange>, usize) {
        let all = self.changes.iter().enumerate().rev();
        let of_plant = all.filter(|(_, change)| change.event.id == id);
        let surely_kept = of_plant.clone().take_while(|(place, _)| self.is_kept(*place, kept));
        let surely_kept = surely_kept.count();
        (of_plant.map(|(_, change)| change.to_past_change()).collect(), surely_kept)
    }

    /// Reads all pages of a history. Its oldest changes may be forgotten.
    async fn check_history(
        &self,
        repository: &dyn PlantRepository,
        id: PlantId,
        before: Option<Revision>,
        limit: usize,
        kept: KeptEvents,
    ) {
        let (all, surely_kept) = self.changes_of(id, kept);
        let is_before = |change: &&PastChange| before.is_none_or(|before| change.revision < before);
        let expected: Vec<_> = all.iter().filter(is_before).cloned().collect();
        let newer = all.len() - expected.len();
        let mut found = Vec::new();
        let mut request = HistoryRequest { id, before, limit };
        let is_cut = loop {
            let page = match repository.history(request).await {
                Ok(page) => page,
                Err(StoreError::NoSuchPlant(of)) => {
                    assert!(of == id && found.is_empty() && surely_kept == 0, "{request:?}");
                    assert_eq!(self.plants.get(id), None, "{request:?}");
                    return;
                }
                Err(StoreError::VersionGone(of, gone)) => {
                    // A page that is asked for may begin at a change of another plant, or at a forgotten one. A page
                    // that follows another one may begin at a change that is forgotten since.
                    let kept = &all[..surely_kept];
                    assert_eq!((of, Some(gone)), (id, request.before));
                    assert!(kept.iter().all(|change| change.revision != gone), "{request:?}");
                    return;
                }
                Err(error) => panic!("{request:?} failed: {error}"),
            };
            let is_start = |before| all.iter().any(|change| change.revision == before);
            assert!(request.before.is_none_or(is_start), "{request:?} begins nowhere");
            let HistoryPage { changes, next, is_cut } = page;
            assert!(changes.len() <= limit, "{request:?}: {changes:?}");
            found.extend(changes);
            let Some(next) = next else { break is_cut };
            assert!(!is_cut, "more changes follow");
            assert_eq!(Some(next), found.last().map(|oldest| oldest.revision), "{request:?}");
            request.before = Some(next);
        };
        assert!(expected.starts_with(&found), "{request:?}: {found:?} is not {expected:?}");
        assert!(found.len() + newer >= surely_kept, "{request:?}: {found:?} of {expected:?}");
        let is_creation = |change: &PastChange| change.kind == EventKind::Created;
        let may_be_cut = match found.last() {
            Some(oldest) => vec![!is_creation(oldest)],
            // Only newer changes are known: this many.
            None => {
                let known = surely_kept..=newer;
                known.map(|known| all[..known].last().is_none_or(|it| !is_creation(it))).collect()
            }
        };
        assert!(may_be_cut.contains(&is_cut), "{request:?}: {is_cut} after {found:?} of {all:?}");
    }

    async fn check_versions(&self, repository: &dyn PlantRepository, kept: KeptEvents) {
        for (place, change) in self.changes.iter().enumerate() {
            let (id, revision) = (change.event.id, change.event.revision());
            let is_current = self.plants.revision(id) == Some(revision);
            if !is_current && !self.is_kept(place, kept) && place % 5 > 0 {
                // The oldest changes would take ever more time.
                continue;
            }
            let version = repository.version(id, revision).await;
            match (&change.plant, version) {
                (Some(plant), Ok(version)) => {
                    assert_eq!(version, StoredPlant { id, plant: plant.clone(), revision });
                }
                (plant, Err(StoreError::VersionGone(of, gone))) => {
                    assert_eq!((of, gone), (id, revision));
                    let is_forgotten = !is_current && !self.is_kept(place, kept);
                    assert!(plant.is_none() || is_forgotten, "{change:?} is kept");
                }
                (_, version) => panic!("{version:?} of {change:?}"),
            }
        }
        // A revision of another plant, or of none.
        let revisions =
            self.changes.last().map(|change| (change.event.id, change.event.revision()));
        let Some((last, revision)) = revisions else { return };
        for id in self.plants.iter().map(|stored| stored.id) {
            for other in [revision, Revision::from(revision.get() + 1), Revision::from(u64::MAX)] {
                if (id, other) != (last, revision) {
                    let version = repository.version(id, other).await;
                    let is_gone = is_about_version(&version, id, other);
                    assert!(is_gone, "{other} of {id}: {version:?}");
                }
            }
        }
    }
}

fn is_about_version<T>(read: &Result<T, StoreError>, id: PlantId, revision: Revision) -> bool {
    matches!(read, Err(StoreError::VersionGone(of, gone)) if (*of, *gone) == (id, revision))
}
