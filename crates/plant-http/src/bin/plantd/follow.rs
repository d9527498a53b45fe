//! Following files while the server runs: what they say is in force soon after they change.

use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// How often files are looked at. They are read each time: what a file system tells of a change may be
/// too coarse to see one, and a file may be a mounted secret, whose link is changed and not itself.
const INTERVAL: Duration = Duration::from_millis(500);

/// Follows files from now on, in a thread of its own that ends with the process.
///
/// `in_force` is what they said when they were read last. `read` reads them, and `take` puts in force what
/// they say. When either fails, what was in force stays so, and the log says why, once.
pub(crate) fn follow<Content: PartialEq + Send + 'static>(
    what: &'static str,
    in_force: Content,
    read: impl Fn() -> anyhow::Result<Content> + Send + 'static,
    take: impl Fn(&Content) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let mut following = Following { what, seen: in_force, read, take, complaint: None };
    thread::Builder::new()
        .name("plantd-follow".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                following.look();
            }
        })
        .with_context(|| format!("cannot start a thread that follows {what}"))?;
    Ok(())
}

struct Following<Content, Read, Take> {
    what: &'static str,
    /// What was read last, whether it could be put in force or not.
    seen: Content,
    read: Read,
    take: Take,
    /// What is wrong, as the log has it already.
    complaint: Option<String>,
}

impl<Content, Read, Take> Following<Content, Read, Take>
where
    Content: PartialEq,
    Read: Fn() -> anyhow::Result<Content>,
    Take: Fn(&Content) -> anyhow::Result<()>,
{
    fn look(&mut self) {
        let content = match (self.read)() {
            Ok(content) => content,
            Err(error) => return self.complain(&error),
        };
        let is_new = content != self.seen;
        if !is_new && self.complaint.is_none() {
            return;
        }
        match (self.take)(&content) {
            Ok(()) => {
                let news =
                    if self.complaint.take().is_some() { "can be used again" } else { "changed" };
                log::info!("{} {news}: what it says is in force", self.what);
            }
            Err(error) => self.complain(&error),
        }
        self.seen = content;
    }

    fn complain(&mut self, error: &anyhow::Error) {
        let complaint = format!("{error:#}");
        if self.complaint.as_ref() != Some(&complaint) {
            log::error!("{}: {complaint}; what was in force stays in force", self.what);
            self.complaint = Some(complaint);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::{anyhow, ensure};

    use super::*;

    #[test]
    fn what_is_broken_changes_nothing_and_what_is_mended_is_taken() {
        let file = RefCell::new(Ok("one"));
        let taken = RefCell::new(Vec::new());
        let mut following = Following {
            what: "a file",
            seen: "one",
            read: || file.borrow().as_ref().map(|content| *content).map_err(|()| anyhow!("gone")),
            take: |content: &&'static str| {
                ensure!(*content != "broken", "it is broken");
                taken.borrow_mut().push(*content);
                Ok(())
            },
            complaint: None,
        };
        for (content, taken_now, complains) in [
            (Ok("one"), &[][..], false),
            (Ok("two"), &["two"], false),
            (Ok("two"), &[], false),
            (Ok("broken"), &[], true),
            (Ok("broken"), &[], true),
            (Err(()), &[], true),
            (Ok("two"), &["two"], false),
            (Err(()), &[], true),
            (Ok("two"), &["two"], false),
            (Ok("three"), &["three"], false),
        ] {
            *file.borrow_mut() = content;
            taken.borrow_mut().clear();
            following.look();
            assert_eq!(*taken.borrow(), taken_now, "{content:?}");
            assert_eq!(following.complaint.is_some(), complains, "{content:?}");
        }
    }
}
