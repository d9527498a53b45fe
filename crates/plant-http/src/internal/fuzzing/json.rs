//! Bodies of the content type JSON.

use plant_domain::{NewPlant, Plant, PlantPatch};
use serde::Serialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::json::read;

pub(super) fn new_plant(body: &[u8]) {
    let new_plant = read::<NewPlant>(body);
    check_failure(body, new_plant.as_ref().err());
    let Ok(new_plant) = new_plant else { return };
    let plant = new_plant.plant();
    if let Some(members) = object(body) {
        check_id(&members, new_plant.id().get());
        check_texts(&members, plant.name(), plant.tag());
    }
    assert_eq!(&read::<Plant>(body).expect("a NewPlant is a Plant too"), plant);
    assert_eq!(read::<NewPlant>(&written(&new_plant)).expect("it was written"), new_plant);
}

pub(super) fn plant(body: &[u8]) {
    let plant = read::<Plant>(body);
    check_failure(body, plant.as_ref().err());
    let Ok(plant) = plant else { return };
    if let Some(members) = object(body) {
        check_texts(&members, plant.name(), plant.tag());
    }
    assert_eq!(read::<Plant>(&written(&plant)).expect("it was written"), plant);
}

pub(super) fn merge_patch(body: &[u8]) {
    let patch = read::<PlantPatch>(body);
    check_failure(body, patch.as_ref().err());
    let (Some(members), Ok(patch)) = (object(body), patch) else { return };
    for tag in [None, Some("R".to_owned())] {
        let plant = Plant::new("Rosa", tag);
        let plant = plant.expect("a valid plant");
        let mut merged = object(&written(&plant)).expect("an object");
        merge(&mut merged, &members);
        let after = patch.apply(&plant);
        check_texts(&merged, after.name(), after.tag());
    }
}

/// RFC 7396, section 2, for two objects whose members matter only if they are text.
fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            target.insert(name.clone(), value.clone());
        }
    }
}

/// A body that is not one complete JSON text is refused as not JSON, and one that serde reads never is. Between the two
/// are bodies with lone surrogates.
fn check_failure(body: &[u8], failure: Option<&Failure>) {
    let number = failure.map(|failure| failure.error().error);
    let is_not_json = number == Some(ErrorNumber::NotJson as i32);
    let has_syntax = std::str::from_utf8(body)
        .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    assert!(has_syntax || is_not_json, "a body that is not JSON was taken");
    if has_syntax && is_not_json {
        let has_value = serde_json::from_slice::<Value>(body).is_ok();
        assert!(!has_value && body.windows(2).any(|pair| pair == br"\u"), "JSON was refused");
    }
    let expected = [ErrorNumber::NotJson, ErrorNumber::WrongShape, ErrorNumber::RuleBroken];
    assert!(number.is_none_or(|number| expected.iter().any(|it| *it as i32 == number)));
}

/// The members as serde reads them. It does not read deep nesting, huge numbers or lone surrogates.
fn object(body: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Some(members),
        _ => None,
    }
}

fn check_id(members: &Map<String, Value>, id: i64) {
    // serde_json reads `-0` as a float.
    let integer = |value: &Value| value.as_i64().or((value.as_f64() == Some(0.0)).then_some(0));
    assert_eq!(members.get("id").and_then(integer), Some(id));
}

fn check_texts(members: &Map<String, Value>, name: &str, tag: Option<&str>) {
    assert_eq!(members.get("name").and_then(Value::as_str), Some(name));
    assert_eq!(members.get("tag").and_then(Value::as_str), tag);
}

fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it can be written")
}
