//! Terms: what the search index has postings for.

use std::collections::BTreeSet;
use std::ops::Range;

use plant_domain::PlantFilter;

/// The bits of a character: Unicode scalar values are less than 2^21.
const CHARACTER_BITS: usize = 21;

/// The characters of a gram. Longer grams rule out more blocks and take more room. Changing the number changes the
/// format of tables.
const GRAM_CHARACTERS: usize = 4;

/// The most grams that a search looks up for a part. Further grams rarely rule out more blocks.
const MOST_GRAMS: usize = 8;

/// Up to four consecutive characters of a folded name, the first one in the highest bits. Each character of a name
/// begins a gram; zeros fill the grams at its end.
pub(crate) type Gram = u128;

/// The grams of a folded text, from the last to the first.
pub(crate) fn grams(folded: &str) -> impl Iterator<Item = Gram> {
    folded.chars().rev().scan(0, |gram, character| {
        *gram = *gram >> CHARACTER_BITS | first(character);
        Some(*gram)
    })
}

/// The gram of this character alone.
fn first(character: char) -> Gram {
    Gram::from(u32::from(character)) << ((GRAM_CHARACTERS - 1) * CHARACTER_BITS)
}

/// The bytes of a gram in a key.
pub(crate) fn gram_term(gram: Gram) -> Vec<u8> {
    [&b"n"[..], &gram.to_be_bytes()].concat()
}

/// The bytes of a tag in a key.
pub(crate) fn tag_term(tag: &str) -> Vec<u8> {
    [b"t", tag.as_bytes()].concat()
}

/// The terms of a filter.
pub(crate) struct Terms {
    /// Each match has all of these.
    pub(crate) all_of: Vec<Vec<u8>>,
    /// Each match has one of these, if given: the grams that begin with a part shorter than a gram.
    pub(crate) one_of: Option<Range<Vec<u8>>>,
}

impl Terms {
    pub(crate) fn of(filter: &PlantFilter) -> Self {
        let part = filter.folded_name_part().unwrap_or_default();
        let grams: Vec<Gram> = grams(part).collect();
        // The last grams of the part end in zeros, but in a name, any characters may follow the part.
        let whole = grams.get(GRAM_CHARACTERS - 1..).unwrap_or_default();
        let spread = (0..MOST_GRAMS).map(|number| number * whole.len() / MOST_GRAMS);
        let looked_up: BTreeSet<Gram> =
            spread.filter_map(|place| whole.get(place).copied()).collect();
        let looked_up = looked_up.into_iter().map(gram_term);
        let one_of = grams.last().filter(|_| whole.is_empty()).map(|least| {
            let free_characters = GRAM_CHARACTERS - grams.len();
            gram_term(*least)..gram_term(least + (1 << (CHARACTER_BITS * free_characters)))
        });
        Self { all_of: filter.tag().map(tag_term).into_iter().chain(looked_up).collect(), one_of }
    }
}

#[cfg(test)]
mod tests {
    use plant_domain::fold_name;

    #[test]
    fn every_character_is_folded_the_same_in_every_version() {
        // The index on disk has folded names: if this fails, folding has changed, and tables need another format.
        let folded: String = (char::MIN..=char::MAX).map(|it| fold_name(&it.to_string())).collect();
        assert_eq!(xxhash_rust::xxh3::xxh3_64(folded.as_bytes()), 9_276_541_882_054_888_880);
    }
}
