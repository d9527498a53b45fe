//! The entries of `deny.toml`: each says why it is there. cargo-deny leaves that open.

use toml::{Table, Value};

/// Where entries are that can have a reason. Licenses have none; a comment says what they are for.
const LISTS: [[&str; 2]; 4] =
    [["advisories", "ignore"], ["bans", "deny"], ["bans", "skip"], ["bans", "skip-tree"]];

/// The entries without a reason.
pub(super) fn violations(configuration: &Table) -> Vec<String> {
    let mut violations = Vec::new();
    for [section, list] in LISTS {
        let entries = configuration.get(section).and_then(|section| section.get(list)?.as_array());
        for entry in entries.into_iter().flatten().filter(|entry| !has_reason(entry)) {
            let name = entry.get("id").or(entry.get("crate")).unwrap_or(entry);
            violations.push(format!(
                "deny.toml gives no reason for `{}` in `{list}` of [{section}]: write one into the entry, \
                 which says why, and what would end it",
                name.as_str().unwrap_or_default()
            ));
        }
    }
    violations
}

fn has_reason(entry: &Value) -> bool {
    let reason = entry.get("reason").and_then(Value::as_str);
    reason.is_some_and(|reason| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(configuration: &str) -> Vec<String> {
        violations(&configuration.parse().unwrap())
    }

    #[test]
    fn an_entry_with_a_reason_is_fine_and_so_is_a_list_that_is_not_there() {
        let configuration = "advisories.ignore = [{ id = 'RUSTSEC-2000-0001', reason = 'why' }]";
        assert_eq!(found(configuration), Vec::<String>::new());
    }

    #[test]
    fn an_entry_without_a_reason_is_found_in_every_list() {
        for (section, list) in
            [("advisories", "ignore"), ("bans", "deny"), ("bans", "skip"), ("bans", "skip-tree")]
        {
            for entry in ["'weed'", "{ crate = 'weed' }", "{ crate = 'weed', reason = ' ' }"] {
                let found = found(&format!("{section}.{list} = [{entry}]"));
                assert_eq!(found.len(), 1, "{section}.{list} {entry}");
                let where_it_is = format!("for `weed` in `{list}` of [{section}]: ");
                assert!(found[0].contains(&where_it_is), "{}", found[0]);
            }
        }
    }
}
