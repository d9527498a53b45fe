//! JSON bodies, read as the resources of the domain. This is the only door through which JSON of a client comes in.
//!
//! Syntax comes before shape: a body that is not JSON to its end is refused as that, whatever its members are. Then one
//! message names everything that is wrong with the members. A derived deserializer stops at the first problem, so the
//! members are first taken as they stand in the text, and then looked at one by one.

use actix_http::Payload;
use actix_web::{FromRequest, HttpRequest};
use futures_util::future::LocalBoxFuture;
use plant_domain::{NewPlant, Plant, PlantId, PlantPatch, TagPatch, Violations};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::body::read_whole;
use crate::extract::caller::Caller;
use crate::extract::media_type::{JSON, MERGE_PATCH};
use crate::extract::members::{Members, Occurrence, integer, text, wrong_shape};
use crate::extract::target::id_in_path;

/// The body of a request as a resource of the domain, which follows its rules.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: JsonResource> FromRequest for Json<T> {
    type Error = Failure;
    type Future = LocalBoxFuture<'static, Result<Self, Failure>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let reading = read_whole(request, payload, T::MEDIA_TYPES);
        // An id in the path that is none is for the extractor of the target to refuse.
        let id_in_path = id_in_path(request).and_then(|id| id.parse().ok());
        let caller = Caller::of(request);
        Box::pin(async move {
            let resource = T::from_members(Members::read(&reading?.await?)?, id_in_path)?;
            // The body may have taken long to come, and the token been revoked meanwhile.
            caller.check_still_valid()?;
            Ok(Self(resource))
        })
    }
}

/// What JSON can become.
pub(crate) trait JsonResource: Sized + 'static {
    /// The content types that its operation takes.
    const MEDIA_TYPES: &'static [&'static str];

    /// Reads it from the members of an object, where the path has this id.
    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure>;
}

/// Reads a resource that no path has an id for.
pub(crate) fn read<T: JsonResource>(text: &[u8]) -> Result<T, Failure> {
    T::from_members(Members::read(text)?, None)
}

/// The specification's section "NewPlant". Unknown members are ignored, and an absent tag may be `null`.
impl JsonResource for NewPlant {
    const MEDIA_TYPES: &'static [&'static str] = &[JSON];

    fn from_members(members: Members<'_>, _id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = members.id.required("id", integer, &mut problems);
        let plant = members.plant(&mut problems);
        match (id, plant) {
            (Some(id), Some((name, tag))) if problems.is_empty() => Ok(Self::new(id, name, tag)?),
            _ => Err(wrong_shape(&problems)),
        }
    }
}

/// The specification's section "Plant". An id in it must be that of the path.
impl JsonResource for Plant {
    const MEDIA_TYPES: &'static [&'static str] = &[JSON];

    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = members.id.if_present("id", integer, &mut problems);
        match members.plant(&mut problems) {
            Some((name, tag)) if problems.is_empty() => {
                checked(id, id_in_path, Self::new(name, tag))
            }
            _ => Err(wrong_shape(&problems)),
        }
    }
}

/// A merge patch (RFC 7396): an absent member stays as it is, and `null` removes the tag. An id in it must be that of
/// the path.
impl JsonResource for PlantPatch {
    const MEDIA_TYPES: &'static [&'static str] = &[MERGE_PATCH, JSON];

    fn from_members(members: Members<'_>, id_in_path: Option<PlantId>) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let id = members.id.if_present("id", integer, &mut problems);
        let name = members.name.if_present("name", text, &mut problems);
        let tag = match members.tag {
            Occurrence::Once(value) if value.get() == "null" => TagPatch::Remove,
            tag => tag.if_present("tag", text, &mut problems).map_or(TagPatch::Keep, TagPatch::Set),
        };
        if !problems.is_empty() {
            return Err(wrong_shape(&problems));
        }
        checked(id, id_in_path, Self::new(name, tag))
    }
}

/// The resource, where it follows the rules and an id that was sent with it is that of the path.
fn checked<T>(
    sent_id: Option<i64>,
    id_in_path: Option<PlantId>,
    resource: Result<T, Violations>,
) -> Result<T, Failure> {
    let other_id = id_in_path.filter(|id| sent_id.is_some_and(|sent_id| sent_id != id.get()));
    let mut problems: Vec<String> = other_id
        .map(|id| format!("id must be {id}, as in the path, or be left out"))
        .into_iter()
        .collect();
    match resource {
        Ok(resource) if problems.is_empty() => return Ok(resource),
        Ok(_) => {}
        Err(violations) => problems.push(violations.to_string()),
    }
    Err(Failure::new(ErrorNumber::RuleBroken, problems.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: impl AsRef<[u8]>) -> Result<NewPlant, i32> {
        read(body.as_ref()).map_err(|failure| failure.number() as i32)
    }

    fn rosa(tag: Option<&str>) -> Result<NewPlant, i32> {
        let tag = tag.map(str::to_owned);
        Ok(NewPlant::new(7, "Rosa", tag).expect("valid"))
    }

    #[test]
    fn a_new_plant_is_read_whatever_its_spacing_order_escapes_and_further_members() {
        for body in [
            r#"{"id":7,"name":"Rosa"}"#,
            "\r\n\t {\n\"name\" : \"Rosa\" ,\"id\": 7 }\t",
            r#"{"\u0069d":7,"n\u0061me":"\u0052osa","tag":null}"#,
            r#"{"id":7,"name":"Rosa","more":{"id":8,"deep":[[1e999]]},"Name":1,"":2}"#,
            r#"{"id":7,"name":"Rosa","note":"\ud800","\ud800":1}"#,
        ] {
            assert_eq!(check(body), rosa(None), "{body}");
        }
        assert_eq!(check(r#"{"id":7,"name":"Rosa","tag":"R"}"#), rosa(Some("R")));
        let surrogate_pair = r#"{"id":7,"name":"Rosa","tag":"\ud83c\udf31"}"#;
        assert_eq!(check(surrogate_pair), rosa(Some("🌱")));
    }

    #[test]
    fn what_is_not_json_to_its_end_is_that_whatever_else_is_wrong() {
        for body in [
            "",
            " ",
            "{",
            "nul",
            "[1,",
            r#"{"id":7,"name":"Rosa"}}"#,
            r#"{"id":7,"name":"Rosa"} x"#,
            r#"{"id":7,"name":"Rosa",}"#,
            r#"{"id":7 "name":"Rosa"}"#,
            r#"{"id":"7","name":4,"x":tru}"#,
            r#"{"id":7,"id":8,"name":"Rosa"#,
            r#"["id",7"#,
            r#"{"id":07,"name":"Rosa"}"#,
            r#"{"id":+7,"name":"Rosa"}"#,
            r#"{"id":7.,"name":"Rosa"}"#,
            r#"{"id":NaN,"name":"Rosa"}"#,
            r#"{'id':7,'name':'Rosa'}"#,
            "{\"id\":7,\"name\":\"Ro\nsa\"}",
            "{\"id\":7,\"name\":\"Rosa\",\"ta\ng\":1}",
            "{\"id\":7,\"name\":\"Rosa\",\"\u{1f}\":1}",
            r#"{"id":7,"name":"Ro\xsa"}"#,
            "\u{feff}{\"id\":7,\"name\":\"Rosa\"}",
            r#"{"id":7,"name":"\ud800"}"#,
            r#"{"id":"x","name":"\udc00 Rosa"}"#,
            r#"{"id":7,"name":"Rosa","tag":"\ud800\ud800"}"#,
            r#"{"id":"\ud800","name":"Rosa"}"#,
            r#"{"id":7,"name":"\ud800","name":"Rosa"}"#,
            r#"{"id":7,"name":"Rosa","name":"\ud800"}"#,
            r#"{"id":7,"name":"Rosa","name":"Rosa","name":"\ud800"}"#,
        ] {
            assert_eq!(check(body), Err(1001), "{body:?}");
        }
        assert_eq!(check(b"{\"id\":7,\"name\":\"\xff\"}"), Err(1001));
        assert_eq!(check(b"{\"id\":7,\"name\":\"Rosa\",\"x\":\"\xed\xa0\x80\"}"), Err(1001));
        let mut utf_16 = vec![0xff, 0xfe];
        utf_16.extend("{}".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(check(utf_16), Err(1001));
    }

    #[test]
    fn json_of_another_shape_is_a_wrong_shape() {
        for body in [
            "null",
            "7",
            r#""id""#,
            "[]",
            r#"[7,"Rosa",null]"#,
            r#"[{"id":7,"name":"Rosa"}]"#,
            "{}",
            r#"{"id":7}"#,
            r#"{"name":"Rosa"}"#,
            r#"{"ID":7,"name":"Rosa"}"#,
            r#"{"id":7,"id":7,"name":"Rosa"}"#,
            r#"{"id":7,"name":"Rosa","name":"Rosa"}"#,
            r#"{"id":7,"name":"Rosa","tag":null,"tag":null}"#,
            r#"{"id":7,"name":"Rosa","n\u0061me":"Rosa"}"#,
            r#"{"id":7.0,"name":"Rosa"}"#,
            r#"{"id":7e0,"name":"Rosa"}"#,
            r#"{"id":1e999,"name":"Rosa"}"#,
            r#"{"id":"7","name":"Rosa"}"#,
            r#"{"id":null,"name":"Rosa"}"#,
            r#"{"id":9223372036854775808,"name":"Rosa"}"#,
            r#"{"id":-9223372036854775809,"name":"Rosa"}"#,
            r#"{"id":7,"name":null}"#,
            r#"{"id":7,"name":7}"#,
            r#"{"id":7,"name":["Rosa"]}"#,
            r#"{"id":7,"name":"Rosa","tag":7}"#,
            r#"{"id":7,"name":"Rosa","tag":{}}"#,
        ] {
            assert_eq!(check(body), Err(1004), "{body}");
        }
    }

    /// What becomes of a body on the path of the plant 7.
    fn check_on_path<T: JsonResource>(body: &str) -> Result<T, i32> {
        let members = Members::read(body.as_bytes());
        let resource = members.and_then(|members| T::from_members(members, Some(PlantId::from(7))));
        resource.map_err(|failure| failure.number() as i32)
    }

    #[test]
    fn a_patch_tells_what_is_absent_from_what_is_null() {
        let check = check_on_path::<PlantPatch>;
        let patch = |name: Option<&str>, tag| {
            Ok(PlantPatch::new(name.map(str::to_owned), tag).expect("valid"))
        };
        assert_eq!(check("{}"), patch(None, TagPatch::Keep));
        assert_eq!(check(r#"{"tag":null}"#), patch(None, TagPatch::Remove));
        let all = patch(Some("Rosa"), TagPatch::Set("R".to_owned()));
        assert_eq!(check(r#"{"id":7,"name":"Rosa","tag":"R","more":null}"#), all);
        for wrong in
            ["[]", "null", r#"{"name":null}"#, r#"{"id":null}"#, r#"{"tag":7}"#, r#"{"id":"7"}"#]
        {
            assert_eq!(check(wrong), Err(1004), "{wrong}");
        }
        assert_eq!(check(r#"{"tag":null"#), Err(1001));
        assert_eq!(check(r#"{"id":8,"name":"Rosa"}"#), Err(1005));
    }

    #[test]
    fn the_id_of_a_plant_may_be_absent_but_neither_null_nor_another_one() {
        let check = check_on_path::<Plant>;
        let rosa = Plant::new("Rosa", None).expect("valid");
        assert_eq!(check(r#"{"name":"Rosa","tag":null}"#), Ok(rosa.clone()));
        assert_eq!(check(r#"{"name":"Rosa","id":7}"#), Ok(rosa));
        for wrong in [r#"{"id":7}"#, r#"{"id":null,"name":"Rosa"}"#, r#"{"name":null}"#] {
            assert_eq!(check(wrong), Err(1004), "{wrong}");
        }
        assert_eq!(check(r#"{"name":"Rosa","id":8}"#), Err(1005));
    }

    #[test]
    fn every_member_of_a_wrong_shape_is_named() {
        let failure = read::<NewPlant>(br#"{"id":1.5,"tag":[]}"#).expect_err("three are wrong");
        let message = failure.to_string();
        for member in ["id must be an integer", "name is missing", "tag must be a string"] {
            assert!(message.contains(member), "{message}");
        }
    }

    #[test]
    fn deep_nesting_is_read_without_recursion() {
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        assert_eq!(check(format!(r#"{{"id":7,"name":"Rosa","x":{deep}}}"#)), rosa(None));
        assert_eq!(check(&deep), Err(1004));
        assert_eq!(check("[".repeat(60_000)), Err(1001));
    }

    #[test]
    fn the_examples_of_the_table_of_errors_are_what_is_said() {
        for (body, number) in [
            ("{\"id\":7,", ErrorNumber::NotJson),
            ("{\"name\":\"Rosa canina\"}", ErrorNumber::WrongShape),
            ("{\"id\":7,\"name\":\"\"}", ErrorNumber::RuleBroken),
        ] {
            let failure = read::<NewPlant>(body.as_bytes()).expect_err("it is wrong");
            assert_eq!(failure.error(), Failure::from(number).error());
        }
    }
}
