//! The create rules, held against random input: what is valid round-trips exactly, and what is not
//! is named.

use plant_domain::{Member, NAME_MAX_CHARACTERS, NewPlant, Rule, Violation, Violations};
use proptest::prelude::*;

fn check(name: &str, tag: Option<&str>) -> Result<NewPlant, Violations> {
    NewPlant::new(7, name, tag.map(str::to_owned))
}

/// The rules that `text` breaks as a name and as a tag; they must be the same ones.
fn broken_rules(text: &str) -> Vec<Rule> {
    let rules_of = |member: Member, checked: Result<NewPlant, Violations>| -> Vec<Rule> {
        checked.err().map_or_else(Vec::new, |violations| {
            assert!(violations.iter().all(|violation| violation.member == member));
            violations.iter().map(|violation| violation.rule).collect()
        })
    };
    let of_name = rules_of(Member::Name, check(text, None));
    let of_tag = rules_of(Member::Tag, check("Rosa", Some(text)));
    assert_eq!(of_name, of_tag, "a name and a tag follow the same rules: {text:?}");
    of_name
}

/// Text that the rules allow: any scalars but control characters, not all of them white space.
fn valid_text() -> impl Strategy<Value = String> {
    let any_scalar = any::<char>().prop_filter("no control character", |c| !c.is_control());
    prop::collection::vec(any_scalar, 1..=255)
        .prop_map(String::from_iter)
        .prop_filter("not blank", |text: &String| !text.chars().all(char::is_whitespace))
}

#[test]
fn the_length_is_counted_in_characters_from_1_to_255() {
    for character in ["a", "é", "木", "🌱", "\u{301}"] {
        assert_eq!(broken_rules(character), [], "{character:?}");
        assert_eq!(broken_rules(&character.repeat(255)), [], "{character:?}");
        assert_eq!(broken_rules(&character.repeat(256)), [Rule::Length], "{character:?}");
    }
    assert_eq!(broken_rules(""), [Rule::Length]);
}

#[test]
fn text_of_white_space_alone_is_blank() {
    for blank in [" ", "   ", "\u{a0}", "\u{2003}\u{3000}", "\u{2028}"] {
        assert_eq!(broken_rules(blank), [Rule::NotBlank], "{blank:?}");
    }
    assert_eq!(broken_rules(" a "), [], "white space around other characters is kept");
    assert_eq!(broken_rules("\u{200b}"), [], "a zero width space is not White_Space");
}

#[test]
fn each_control_character_is_refused_wherever_it_stands() {
    let controls = ('\0'..='\u{9f}').filter(|c| c.is_control()).collect::<Vec<char>>();
    assert_eq!(controls.len(), 65, "category Cc holds C0, DEL and C1");
    for control in controls {
        for text in [format!("{control}a"), format!("a{control}a"), format!("a{control}")] {
            assert_eq!(broken_rules(&text), [Rule::NoControlCharacters], "{text:?}");
        }
    }
}

#[test]
fn every_broken_rule_of_every_member_is_named() {
    let violations = check(&"\n".repeat(256), Some("")).expect_err("four rules are broken");
    let expected = [
        (Member::Name, Rule::Length),
        (Member::Name, Rule::NotBlank),
        (Member::Name, Rule::NoControlCharacters),
        (Member::Tag, Rule::Length),
    ]
    .map(|(member, rule)| Violation { member, rule });
    assert_eq!(violations.iter().collect::<Vec<_>>(), expected);
    for violation in expected {
        assert!(violations.to_string().contains(&violation.to_string()));
    }
}

proptest! {
    #[test]
    fn any_valid_value_is_kept_and_written_exactly(
        id: i64,
        name in valid_text(),
        tag in prop::option::of(valid_text()),
    ) {
        let new_plant = NewPlant::new(id, name.clone(), tag.clone()).expect("valid");
        prop_assert_eq!(new_plant.id().get(), id);
        prop_assert_eq!(new_plant.plant().name(), &name);
        prop_assert_eq!(new_plant.plant().tag(), tag.as_deref());

        let json = serde_json::to_value(&new_plant).expect("serializes");
        prop_assert_eq!(&json["id"], id);
        prop_assert_eq!(&json["name"], &name);
        prop_assert_eq!(json.get("tag").and_then(|tag| tag.as_str()), tag.as_deref());
    }

    #[test]
    fn any_broken_rule_is_named(text in any::<String>(), repeat in 1_usize..300) {
        let text = text.repeat(repeat);
        let length = u64::try_from(text.chars().count()).expect("short");
        let mut expected = Vec::new();
        if length == 0 || length > NAME_MAX_CHARACTERS {
            expected.push(Rule::Length);
        }
        if length > 0 && text.trim().is_empty() {
            expected.push(Rule::NotBlank);
        }
        if text.chars().any(|c| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')) {
            expected.push(Rule::NoControlCharacters);
        }
        prop_assert_eq!(broken_rules(&text), expected);
    }
}
