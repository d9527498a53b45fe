//! Bodies that are said to be JSON.

use plant_domain::{
    NewPlant, Plant, PlantPatch, UncheckedNewPlant, UncheckedPlant, UncheckedPlantPatch,
};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::wire::{read_new_plant, read_plant, read_plant_patch};

pub(super) fn new_plant(body: &[u8]) {
    let read = read_new_plant(body);
    check_failure(body, read.as_ref().err());
    let text = std::str::from_utf8(body).ok();
    let by_serde = text.and_then(|text| serde_json::from_str::<NewPlant>(text).ok());
    let new_plant = read.as_ref().ok().cloned().and_then(|it| NewPlant::try_from(it).ok());
    // Serde's way refuses a little more, such as `-0`, and no valid plant is another one to it.
    assert!(by_serde.is_none() || by_serde == new_plant);
    let Ok(unchecked) = read else { return };

    if let Some(members) = object(body) {
        check_members(&members, Some(unchecked.id), &unchecked.name, unchecked.tag.as_deref());
    }
    let UncheckedNewPlant { id, name, tag } = &unchecked;
    let plant = UncheckedPlant { name: name.clone(), tag: tag.clone() };
    assert_eq!(read_plant(body).expect("a NewPlant is a Plant too"), (Some(*id), plant));
    if let Some(new_plant) = new_plant {
        let written = written(&new_plant);
        assert_eq!(read_new_plant(&written).expect("it was written"), unchecked);
        let again: NewPlant = serde_json::from_slice(&written).expect("it was written");
        assert_eq!(again, new_plant);
    }
}

pub(super) fn plant(body: &[u8]) {
    let read = read_plant(body);
    check_failure(body, read.as_ref().err());
    let Ok((id, unchecked)) = read else { return };
    if let Some(members) = object(body) {
        check_members(&members, id, &unchecked.name, unchecked.tag.as_deref());
    }
    if let Ok(plant) = Plant::try_from(unchecked.clone()) {
        assert_eq!(read_plant(&written(&plant)).expect("it was written"), (None, unchecked));
    }
}

pub(super) fn merge_patch(body: &[u8]) {
    let read = read_plant_patch(body);
    check_failure(body, read.as_ref().err());
    let Ok((id, unchecked)) = read else { return };
    let UncheckedPlantPatch { name, tag: _ } = &unchecked;
    if let Some(name) = name
        && let Ok((_, plant)) = read_plant(body)
    {
        assert_eq!(*name, plant.name);
    }
    let (Some(patch), Ok(plant_patch)) = (object(body), PlantPatch::try_from(unchecked)) else {
        return;
    };
    for before in [r#"{"name":"Rosa"}"#, r#"{"name":"Rosa","tag":"R"}"#] {
        let plant: Plant = serde_json::from_str(before).expect("a valid plant");
        let mut merged = object(before.as_bytes()).expect("an object");
        merge(&mut merged, &patch);
        let after = plant_patch.apply(&plant);
        check_members(&merged, id, after.name(), after.tag());
    }
}

/// RFC 7396, section 2, for what is an object on both sides, and whose members matter only where they
/// are text.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            target.insert(name.clone(), value.clone());
        }
    }
}

/// What is not JSON to its end is refused as that, and what serde takes as JSON never is. In between is
/// text with lone surrogates.
fn check_failure(body: &[u8], failure: Option<&Failure>) {
    let number = failure.map(|failure| failure.error().error);
    let is_not_json = number == Some(ErrorNumber::NotJson as i32);
    let has_syntax = std::str::from_utf8(body)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert!(has_syntax || is_not_json, "what is not JSON was taken for it");
    if has_syntax && is_not_json {
        let has_value = serde_json::from_slice::<Value>(body).is_ok();
        assert!(!has_value && body.windows(2).any(|pair| pair == br"\u"), "JSON was refused");
    }
    let expected = [None, Some(ErrorNumber::NotJson as i32), Some(ErrorNumber::WrongShape as i32)];
    assert!(expected.contains(&number), "{number:?}");
}

/// The members as serde reads them. It does not read what nests deeply, holds huge numbers or lone
/// surrogates.
fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn check_members(members: &Map<String, Value>, id: Option<i64>, name: &str, tag: Option<&str>) {
    // Serde takes `-0` for a fraction.
    let integer = |value: &Value| value.as_i64().or((value.as_f64() == Some(0.0)).then_some(0));
    assert_eq!(members.get("id").and_then(integer), id);
    assert_eq!(members.get("name").and_then(Value::as_str), Some(name));
    assert_eq!(members.get("tag").and_then(Value::as_str), tag);
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it can be written")
}
