//! The bytes of one file on a disk that may lose power.

use fastrand::Rng;

/// A disk writes a sector whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The durable bytes, and the changes that may be lost.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    durable: Vec<u8>,
    /// In the order in which the calls began.
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// The line of the trace on which the call had returned.
    returned: usize,
    change: ContentChange,
    is_durable: bool,
}

#[derive(Clone, Debug)]
pub(super) enum ContentChange {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// The probability that an unsynced sector survives. `None`: each change gets a random one.
pub(super) type Odds = Option<f64>;

pub(super) fn any_odds(chance: &mut Rng) -> Odds {
    [Some(0.0), Some(1.0), None][chance.usize(..3)]
}

impl Content {
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable: bytes, ..Self::default() }
    }

    /// A change by a call that returns on this line of the trace.
    pub(super) fn change(&mut self, returned: usize, change: ContentChange) {
        self.pending.push(Pending { returned, change, is_durable: false });
    }

    /// Makes changes durable if `holds` accepts the line on which their call returned.
    pub(super) fn became_durable(&mut self, holds: impl Fn(usize) -> bool) {
        for pending in &mut self.pending {
            pending.is_durable |= holds(pending.returned);
        }
        // A durable change can be applied for good once all changes before it are durable.
        let durable = self.pending.iter().take_while(|pending| pending.is_durable).count();
        for pending in self.pending.drain(..durable) {
            pending.change.apply(&mut self.durable, || true);
        }
    }

    /// Treats all calls so far as returned before the first line of another trace.
    pub(super) fn begin_trace(&mut self) {
        for pending in &mut self.pending {
            pending.returned = 0;
        }
    }

    /// Treats what differs in `bytes`, the content of the file now, as written before the first line of another
    /// trace.
    pub(super) fn catch_up(&mut self, bytes: &[u8]) {
        let mut known = self.durable.clone();
        for pending in &self.pending {
            pending.change.apply(&mut known, || true);
        }
        let differs = |at: &usize| known.get(*at) != bytes.get(*at);
        if let Some(offset) = (0..bytes.len()).find(differs) {
            let last = (offset..bytes.len()).rfind(differs).unwrap_or(offset);
            let bytes = bytes[offset..=last].to_vec();
            self.change(0, ContentChange::Write { offset, bytes });
        }
    }

    /// The bytes that survive a cut, and how many changes are lost, in whole or in part.
    pub(super) fn after_a_cut(&self, odds: Odds, chance: &mut Rng) -> (Vec<u8>, usize) {
        let (mut bytes, mut lost) = (self.durable.clone(), 0);
        for Pending { change, is_durable, .. } in &self.pending {
            let odds = odds.unwrap_or_else(|| [0.0, 0.5, 1.0][chance.usize(..3)]);
            let is_whole = change.apply(&mut bytes, || *is_durable || chance.f64() < odds);
            lost += usize::from(!is_whole);
        }
        (bytes, lost)
    }
}

impl ContentChange {
    /// Applies each sector for which `survives` returns true. Returns whether all survive.
    fn apply(&self, file: &mut Vec<u8>, mut survives: impl FnMut() -> bool) -> bool {
        let (offset, bytes) = match self {
            Self::Write { offset, bytes } => (*offset, bytes),
            Self::Resize(length) => {
                let survives = survives();
                if survives {
                    file.resize(*length, 0);
                }
                return survives;
            }
        };
        let (mut begin, mut is_whole) = (0, true);
        while begin < bytes.len() {
            let to_next_sector = SECTOR_BYTES - (offset + begin) % SECTOR_BYTES;
            let end = bytes.len().min(begin + to_next_sector);
            if survives() {
                file.resize(file.len().max(offset + end), 0);
                file[offset + begin..offset + end].copy_from_slice(&bytes[begin..end]);
            } else {
                is_whole = false;
            }
            begin = end;
        }
        is_whole
    }
}
