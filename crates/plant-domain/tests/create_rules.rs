//! The create rules: every broken rule is named, and nothing else is refused.

use plant_domain::{NewPlant, check_tag_prefix};
use proptest::prelude::*;

const LENGTH: &str = "must have 1 to 255 characters";
const BLANK: &str = "must hold a character that is not white space";
const CONTROL: &str = "must not hold control characters";

fn refusal(name: &str, tag: Option<&str>) -> Option<String> {
    let checked = NewPlant::new(7, name, tag.map(str::to_owned));
    checked.err().map(|violations| violations.to_string())
}

/// Checks that `text` breaks these rules, as a name and as a tag.
#[track_caller]
fn check(text: &str, broken: &[&str]) {
    let expected = |member: &str| {
        let sentences: Vec<String> = broken.iter().map(|it| format!("{member} {it}")).collect();
        (!broken.is_empty()).then(|| sentences.join("; "))
    };
    assert_eq!(refusal(text, None), expected("name"), "{text:?}");
    assert_eq!(refusal("Rosa", Some(text)), expected("tag"), "{text:?}");
}

fn is_control(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

#[test]
fn the_length_is_counted_in_characters_from_1_to_255() {
    for character in ["a", "é", "木", "🌱", "\u{301}"] {
        check(character, &[]);
        check(&character.repeat(255), &[]);
        check(&character.repeat(256), &[LENGTH]);
    }
    check("", &[LENGTH]);
}

#[test]
fn every_broken_rule_of_every_member_is_named() {
    let expected = format!("name {LENGTH}; name {BLANK}; name {CONTROL}; tag {LENGTH}");
    // A random order would not come out right 64 times.
    for _ in 0..64 {
        assert_eq!(refusal(&"\n".repeat(256), Some("")).as_ref(), Some(&expected));
    }
}

#[test]
fn every_control_character_is_refused_and_no_other() {
    for character in '\0'..='\u{ffff}' {
        let broken: &[&str] = if is_control(character) { &[CONTROL] } else { &[] };
        check(&format!("a{character}"), broken);
        check(&format!("木{character}"), broken);
    }
}

proptest! {
    #[test]
    fn any_broken_rule_is_named(text in any::<String>(), repeat in 1_usize..300) {
        let text = text.repeat(repeat);
        let length = text.chars().count();
        let mut expected = Vec::new();
        if length == 0 || length > 255 {
            expected.push(LENGTH);
        }
        if length > 0 && text.trim().is_empty() {
            expected.push(BLANK);
        }
        if text.chars().any(is_control) {
            expected.push(CONTROL);
        }
        check(&text, &expected);
    }
}

#[test]
fn a_tag_prefix_is_any_text_of_1_to_255_characters_without_controls() {
    let refusal = |prefix: &str| check_tag_prefix(prefix).err().map(|it| it.to_string());
    for prefix in [" ", "Ros", "🌱", &"é".repeat(255)] {
        assert_eq!(refusal(prefix), None, "{prefix:?}");
    }
    assert_eq!(refusal(""), Some(format!("prefix {LENGTH}")));
    assert_eq!(refusal("a\n"), Some(format!("prefix {CONTROL}")));
    let both = Some(format!("prefix {LENGTH}; prefix {CONTROL}"));
    assert_eq!(refusal(&"\u{85}".repeat(256)), both);
}
