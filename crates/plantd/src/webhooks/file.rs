//! The file with the webhooks of a server, which only commands on its machine change.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use plant_store::EventKind;
use serde::{Deserialize, Serialize};
use standardwebhooks::Webhook as Signer;

use crate::files::json_file::JsonFile;
use crate::webhooks::destination::Destination;

/// The most webhooks of a server. Each has a connection and reads every event.
pub(crate) const WEBHOOKS_MAX: usize = 16;

const NAME_MAX_CHARACTERS: usize = 64;

/// How long the previous secret signs too after a rotation.
pub(crate) const OLD_SECRET_LASTS: Duration = Duration::from_secs(24 * 3600);

const SECRET_BYTES: usize = 32;

/// The lengths of secrets in Standard Webhooks, in bytes.
const SECRET_LENGTHS: RangeInclusive<usize> = 24..=64;

const SECRET_PREFIX: &str = "whsec_";

const NO_RANDOM_BYTES: &str = "the system gives no random bytes";

/// The content of the file, as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebhooksFile {
    /// The webhooks, oldest first. At most [`WEBHOOKS_MAX`], each with a name of its own.
    pub(crate) webhooks: Vec<Webhook>,
}

/// A program that is told about changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    pub(crate) name: String,
    /// A random name that no other webhook has ever had: that of its checkpoint, and the beginning of its deliveries' ids.
    pub(crate) id: String,
    pub(crate) destination: Destination,
    /// The kinds of events to send.
    pub(crate) kinds: Vec<EventKind>,
    /// Whether events are sent with their plants.
    pub(crate) plants: bool,
    pub(crate) is_paused: bool,
    /// How often the webhook was resumed. A receiver that answers 410 pauses it until the next time.
    pub(crate) times_resumed: u32,
    /// Newest first.
    secrets: Vec<Secret>,
}

/// A key to sign deliveries with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    /// `whsec_` and the bytes in base64, as Standard Webhooks writes a secret.
    secret: String,
    /// When it is no longer used, if it was rotated.
    until: Option<Timestamp>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secret").field("until", &self.until).finish_non_exhaustive()
    }
}

impl JsonFile for WebhooksFile {
    const FLAG: &'static str = "--webhooks";
    const ADVICE: &'static str = "correct it, or remove it and create the webhooks again";

    fn check(&self) -> anyhow::Result<()> {
        let count = self.webhooks.len();
        ensure!(
            count <= WEBHOOKS_MAX,
            "it has {count} webhooks, more than {WEBHOOKS_MAX}; remove some"
        );
        let (mut names, mut ids) = (HashSet::new(), HashSet::new());
        for webhook in &self.webhooks {
            let name = &webhook.name;
            webhook.check().with_context(|| format!("webhook {name:?} cannot be used"))?;
            ensure!(
                names.insert(name) && ids.insert(&webhook.id),
                "it has several webhooks with the name or the id of {name}; remove one"
            );
        }
        Ok(())
    }
}

impl WebhooksFile {
    /// The webhook with this name.
    pub(crate) fn find(&mut self, name: &str) -> Option<&mut Webhook> {
        self.webhooks.iter_mut().find(|webhook| webhook.name == name)
    }
}

impl Webhook {
    pub(crate) fn new(
        name: String,
        destination: Destination,
        kinds: Vec<EventKind>,
        plants: bool,
    ) -> anyhow::Result<Self> {
        let webhook = Self {
            name,
            id: format!("{:016x}", getrandom::u64().context(NO_RANDOM_BYTES)?),
            destination,
            kinds,
            plants,
            is_paused: false,
            times_resumed: 0,
            secrets: vec![Secret::random()?],
        };
        webhook.check()?;
        Ok(webhook)
    }

    fn check(&self) -> anyhow::Result<()> {
        let in_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        ensure!(
            (1..=NAME_MAX_CHARACTERS).contains(&self.name.len())
                && self.name.chars().all(in_name)
                && self.name.starts_with(|c: char| c.is_ascii_alphanumeric()),
            "a webhook's name has 1 to {NAME_MAX_CHARACTERS} ASCII letters, digits and -._, and begins with a letter or a \
             digit"
        );
        let is_id = !self.id.is_empty() && self.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        ensure!(is_id, "its id is not one that plantd made");
        ensure!(!self.kinds.is_empty(), "it has no kind of event to send");
        let is_signed = self.secrets.first().is_some_and(|newest| newest.until.is_none());
        ensure!(is_signed, "it has no secret without an end");
        self.secrets.iter().try_for_each(Secret::check)?;
        self.destination.check()
    }

    /// The secret for the receiver.
    pub(crate) fn reveal_secret(&self) -> &str {
        self.secrets.first().map_or("", |secret| &secret.secret)
    }

    /// Makes a new secret. The old one goes on to sign for [`OLD_SECRET_LASTS`]; older ones end.
    pub(crate) fn rotate(&mut self) -> anyhow::Result<()> {
        let (new, until) = (Secret::random()?, Timestamp::now().checked_add(OLD_SECRET_LASTS)?);
        self.secrets.truncate(1);
        self.secrets.iter_mut().for_each(|old| old.until = Some(until));
        self.secrets.insert(0, new);
        Ok(())
    }

    /// What to sign deliveries with now.
    pub(crate) fn signers(&self) -> anyhow::Result<Vec<Signer>> {
        let now = Timestamp::now();
        let is_valid = |secret: &&Secret| secret.until.is_none_or(|until| now < until);
        self.secrets.iter().filter(is_valid).map(Secret::signer).collect()
    }
}

impl Secret {
    fn random() -> anyhow::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).context(NO_RANDOM_BYTES)?;
        Ok(Self { secret: format!("{SECRET_PREFIX}{}", STANDARD.encode(bytes)), until: None })
    }

    fn check(&self) -> anyhow::Result<()> {
        let bytes = self.secret.strip_prefix(SECRET_PREFIX).map(|text| STANDARD.decode(text));
        // The error of the decoder would quote a character of the secret.
        let is_secret = matches!(bytes, Some(Ok(bytes)) if SECRET_LENGTHS.contains(&bytes.len()));
        let (least, most) = (SECRET_LENGTHS.start(), SECRET_LENGTHS.end());
        ensure!(is_secret, "a secret is {SECRET_PREFIX} and {least} to {most} bytes in base64");
        Ok(())
    }

    fn signer(&self) -> anyhow::Result<Signer> {
        Signer::new(&self.secret).map_err(|_| anyhow!("it has a secret that is not base64"))
    }
}

/// The file of a server: by default, `webhooks.json` in the data folder.
pub(crate) fn webhooks_path(chosen: Option<&Path>, data: &Path) -> PathBuf {
    chosen.map_or_else(|| data.join("webhooks.json"), Path::to_owned)
}
