//! The folded names and tags of a memtable as plain text, in the order of their arrival.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use memchr::memmem::Finder;
use plant_domain::{PlantFilter, PlantId, fold_name};

/// A chunk is complete at this many bytes of text. Each search copies the incomplete chunk.
const CHUNK_BYTES: usize = 32 * 1024;

/// Chunks that a search shares with the memtable.
pub(crate) type TextChunks = Vec<Arc<TextChunk>>;

/// The texts of all changes in a memtable. A plant that has changed several times is there several times.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextLog {
    complete: TextChunks,
    last: TextChunk,
}

/// The texts of consecutive changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextChunk {
    ids: Vec<PlantId>,
    names: Texts,
    tags: Texts,
}

impl TextLog {
    pub(crate) fn add(&mut self, id: PlantId, name: &str, tag: Option<&str>) {
        if self.last.names.text.len() + self.last.tags.text.len() >= CHUNK_BYTES {
            self.complete.push(Arc::new(mem::take(&mut self.last)));
        }
        self.last.ids.push(id);
        self.last.names.add([&fold_name(name)]);
        self.last.tags.add(bounded(tag.unwrap_or_default()));
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = Arc<TextChunk>> {
        self.complete.iter().cloned().chain([Arc::new(self.last.clone())])
    }
}

/// A tag between bytes that no tag has, so that a search does not find it in a longer tag.
fn bounded(tag: &str) -> [&str; 3] {
    ["\0", tag, "\0"]
}

/// The plants from an id on whose name or tag may match, each once, by ascending id.
pub(crate) fn find(chunks: &TextChunks, filter: &PlantFilter, from: PlantId) -> VecDeque<PlantId> {
    let of_tag = || filter.tag().map(|tag| bounded(tag).concat());
    let of_name = filter.folded_name_part().map(str::to_owned);
    let is_of_name = of_name.is_some();
    let Some(part) = of_name.or_else(of_tag) else { return VecDeque::new() };
    let finder = Finder::new(&part);
    let mut found = Vec::new();
    for chunk in chunks {
        let texts = if is_of_name { &chunk.names } else { &chunk.tags };
        let ids = texts.find(&finder).map(|index| chunk.ids[index]);
        found.extend(ids.filter(|id| *id >= from));
    }
    found.sort_unstable();
    found.dedup();
    found.into()
}

/// Texts, one after the other.
#[derive(Clone, Debug, Default)]
struct Texts {
    text: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    fn add<const N: usize>(&mut self, parts: [&str; N]) {
        parts.into_iter().for_each(|part| self.text.push_str(part));
        self.ends.push(self.text.len());
    }

    /// The indexes of the texts with a part. A part that begins in one text and ends in the next is found too.
    fn find(&self, finder: &Finder<'_>) -> impl Iterator<Item = usize> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let place = from + finder.find(&self.text.as_bytes()[from..])?;
            let index = self.ends.partition_point(|end| *end <= place);
            from = *self.ends.get(index)?;
            Some(index)
        })
    }
}
