//! What checkpoints promise in every store.

use crate::{Checkpoint, Checkpoints};

/// Checks the contract of [`Checkpoints`] on a new empty store. `open` is called again after the repository is dropped.
///
/// # Panics
///
/// If the contract does not hold.
pub async fn check_checkpoints<Store: Checkpoints>(open: impl AsyncFn() -> Store) {
    let store = open().await;
    let held = |content: &[u8]| Checkpoint { is_held: true, content: content.to_vec() };
    for name in ["shop", "other"] {
        assert_eq!(store.hold(name).await.expect("reads"), held(b""), "{name}");
        assert!(store.save(name, name.into()).await.expect("saves"), "{name}");
        assert_eq!(store.hold(name).await.expect("reads"), held(name.as_bytes()));
    }
    let long = vec![0xff; 100_000];
    for content in [b"", &long[..]] {
        assert!(store.save("shop", content.to_vec()).await.expect("saves"));
        assert_eq!(store.hold("shop").await.expect("reads"), held(content));
    }
    store.retain(vec!["shop".to_owned(), "unknown".to_owned()]).await.expect("forgets");
    assert!(!store.save("other", b"late".to_vec()).await.expect("answers"), "it is forgotten");
    drop(store);
    let store = open().await;
    assert_eq!(store.hold("shop").await.expect("reads").content, long);
    assert_eq!(store.hold("other").await.expect("reads").content, b"", "it was forgotten");
}
