//! Clients that write in the background of a test.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::client::Client;
use crate::plant::replacement_body;

const WRITERS: i64 = 3;

/// Clients that create, change and delete plants until this ends. Dropping it ends the clients too, so that a
/// failed assertion does not hang.
#[derive(Debug)]
pub struct Disturbance {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
}

impl Disturbance {
    /// Writes plants with the tags `steady` and `other`, with ids in `range` that are not multiples of ten.
    /// Plants whose ids are multiples of ten stay unchanged.
    pub fn start(new_client: impl Fn() -> Client, range: &Range<i64>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (1..=WRITERS).map(|number| {
            let (stop, client, range) = (Arc::clone(&stop), new_client(), range.clone());
            thread::spawn(move || disturb(&client, number, &range, &stop))
        });
        Self { writers: writers.collect(), stop }
    }

    /// Ends the clients, and asserts that every answer was as it should be.
    #[track_caller]
    pub fn end(mut self) {
        let ended_before = self.writers.iter().any(JoinHandle::is_finished);
        assert!(!ended_before, "a writer stopped too early");
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers.drain(..) {
            writer.join().expect("no writer panicked");
        }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Each writer has its own plants.
fn disturb(client: &Client, number: i64, range: &Range<i64>, stop: &AtomicBool) {
    let count = range.end - range.start;
    for round in (0_i64..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let id = (range.start + round * 7919 % count) * 10 + number;
        client.create(id, "Rosa", Some("steady")).assert_plant("Rosa", Some("steady"));
        if round % 2 == 0 {
            let new = replacement_body("Abies", Some("other"));
            client.put(id, &new).assert_plant("Abies", Some("other"));
        }
        client.delete(id).assert_no_content();
    }
}
