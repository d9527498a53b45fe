//! Reloads files while the server runs.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// How often the files are read. Comparing metadata would not suffice: timestamps can be too coarse, and a mounted
/// secret changes by a link.
const INTERVAL: Duration = Duration::from_millis(500);

/// Follows files in its own thread, which ends with the process.
///
/// `in_force` is the content that was read last, `read` reads the files, and `take` applies new content. If either
/// function fails, the old content stays in use. A failure is logged only if the next read fails in the same way: a
/// certificate and its key change one after the other, and do not match in between.
pub(crate) fn follow<Content: PartialEq + Send + 'static>(
    what: &'static str,
    in_force: Content,
    read: impl Fn() -> anyhow::Result<Content> + Send + 'static,
    take: impl Fn(&Content) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let mut following =
        Following { what, seen: in_force, read, take, trouble: None, is_told: false };
    thread::Builder::new()
        .name("plantd-follow".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(INTERVAL);
                // The panic hook logs a panic. Without this thread, the server would no longer notice revoked
                // tokens.
                let _ = catch_unwind(AssertUnwindSafe(|| following.look()));
            }
        })
        .with_context(|| format!("cannot start a thread that follows {what}"))?;
    Ok(())
}

struct Following<Content, Read, Take> {
    what: &'static str,
    /// The content that was read last, even if it could not be applied.
    seen: Content,
    read: Read,
    take: Take,
    /// The last failure. It is not logged at once, because the next read may succeed.
    trouble: Option<String>,
    /// Whether the failure was logged.
    is_told: bool,
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
        if !is_new && self.trouble.is_none() {
            return;
        }
        let taken = (self.take)(&content);
        self.seen = content;
        if let Err(error) = taken {
            return self.complain(&error);
        }
        self.trouble = None;
        let was_told = mem::take(&mut self.is_told);
        if is_new || was_told {
            let news = if was_told { "can be used again" } else { "changed" };
            log::info!("{} {news}: the new content is in force", self.what);
        }
    }

    fn complain(&mut self, error: &anyhow::Error) {
        let complaint = format!("{error:#}");
        if self.trouble.as_ref() != Some(&complaint) {
            self.is_told = false;
        } else if !self.is_told {
            log::error!("{}: {complaint}; what was in force stays in force", self.what);
            self.is_told = true;
        }
        self.trouble = Some(complaint);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::{anyhow, ensure};

    use super::*;

    #[test]
    fn broken_content_changes_nothing_and_mended_content_is_taken() {
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
            trouble: None,
            is_told: false,
        };
        for (content, taken_now, trouble) in [
            (Ok("one"), &[][..], None),
            (Ok("two"), &["two"], None),
            (Ok("two"), &[], None),
            (Ok("broken"), &[], Some(("it is broken", false))),
            (Ok("broken"), &[], Some(("it is broken", true))),
            (Ok("broken"), &[], Some(("it is broken", true))),
            (Err(()), &[], Some(("gone", false))),
            (Err(()), &[], Some(("gone", true))),
            (Ok("two"), &["two"], None),
            (Err(()), &[], Some(("gone", false))),
            (Ok("two"), &["two"], None),
            (Ok("broken"), &[], Some(("it is broken", false))),
            (Ok("three"), &["three"], None),
        ] {
            *file.borrow_mut() = content;
            taken.borrow_mut().clear();
            following.look();
            assert_eq!(*taken.borrow(), taken_now, "{content:?}");
            let found = following.trouble.as_deref().map(|it| (it, following.is_told));
            assert_eq!(found, trouble, "{content:?}");
        }
    }
}
