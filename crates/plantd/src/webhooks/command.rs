//! `plantd webhook create`, `list`, `test`, `rotate`, `pause`, `resume` and `remove`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use plant_http::WebhookStatus;
use plant_postgres::PostgresRepository;
use plant_store::{EventKind, SledRepository};

use crate::client::remote::printable;
use crate::client::server_url::parse_strictly;
use crate::exit::Stop;
use crate::files::data_folder::{make_folder, plants_folder};
use crate::files::json_file::JsonFile as _;
use crate::print::{print, say};
use crate::store::postgres::{self, PostgresOptions};
use crate::webhooks::delivery;
use crate::webhooks::destination::Destination;
use crate::webhooks::file::{OLD_SECRET_LASTS, WEBHOOKS_MAX, Webhook, WebhooksFile, webhooks_path};
use crate::webhooks::progress::Progress;
use crate::webhooks::receiver_client::{Answer, ReceiverClient};
use crate::webhooks::status::status;

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Create a webhook, and print the secret that its deliveries are signed with
    Create(WebhookCreateOptions),
    /// List the webhooks, and how far each has come
    List(Box<WebhookListOptions>),
    /// Send a delivery of the type plants.test, and show the answer
    Test(WebhookNameOptions),
    /// Print a new secret; the old one signs too for 24 hours
    Rotate(WebhookNameOptions),
    /// Send nothing until the webhook is resumed
    Pause(WebhookNameOptions),
    /// Go on with a webhook that was paused, or whose receiver answered 410
    Resume(WebhookNameOptions),
    /// Remove a webhook
    Remove(WebhookNameOptions),
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Standard output gets the secret alone. A running server notices the webhook within 2 s, and sends what changes \
    from then on. If the store has had changes before, a first delivery of the type plants.lost says that the receiver lacks those."
)]
pub(crate) struct WebhookCreateOptions {
    /// The name in the list, the log and the metrics; no other webhook may have it
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Where to send: https, or http to this machine
    #[arg(long, value_name = "URL")]
    url: String,

    /// The kinds of changes to send, separated by commas [default: all]
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind())]
    kinds: Vec<EventKind>,

    /// Send each plant too, as the change has left it
    #[arg(long)]
    plants: bool,

    /// Permit http to other machines; others on the network can read the plants
    #[arg(long)]
    allow_http: bool,

    /// Permit addresses in private networks
    #[arg(long)]
    allow_private: bool,

    #[command(flatten)]
    file: FileOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookNameOptions {
    /// The name of the webhook
    name: String,

    #[command(flatten)]
    file: FileOptions,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct WebhookListOptions {
    #[command(flatten)]
    file: FileOptions,

    #[command(flatten, next_help_heading = "PostgreSQL")]
    postgres: PostgresOptions,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Data")]
struct FileOptions {
    /// The folder of the plants and the webhooks
    #[arg(long = "data", value_name = "DIR", env = "PLANTD_DATA", default_value = "plantd-data")]
    folder: PathBuf,

    /// The file with the webhooks and their secrets [default: DIR/webhooks.json]
    #[arg(long, value_name = "FILE", env = "PLANTD_WEBHOOKS")]
    webhooks: Option<PathBuf>,
}

impl FileOptions {
    fn path(&self) -> PathBuf {
        webhooks_path(self.webhooks.as_deref(), &self.folder)
    }
}

impl WebhookNameOptions {
    /// Changes the file, in which `change` finds the webhook.
    fn edit<T>(&self, change: impl FnOnce(&mut WebhooksFile) -> Option<T>) -> Result<T, Stop> {
        let path = self.file.path();
        // An edit would make a missing file.
        if WebhooksFile::read_bytes(&path).map_err(Stop::of_file)?.is_none() {
            return Err(no_file(&path));
        }
        let changed = WebhooksFile::edit(&path, |file| Ok(change(file))).map_err(Stop::of_file)?;
        changed.ok_or_else(no_webhook)
    }
}

fn no_webhook() -> Stop {
    Stop::Usage(anyhow!(
        "there is no webhook with this name; `plantd webhook list` shows the names"
    ))
}

fn no_file(path: &Path) -> Stop {
    Stop::Io(anyhow!("there is no {}; choose another with --webhooks or --data", path.display()))
}

fn kind() -> impl TypedValueParser<Value = EventKind> {
    PossibleValuesParser::new(EventKind::ALL.map(EventKind::name)).try_map(|name| {
        let named = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        named.context("there is no such kind")
    })
}

pub(crate) fn run(command: WebhookCommand) -> Result<(), Stop> {
    match command {
        WebhookCommand::Create(options) => create(options),
        WebhookCommand::List(options) => list(&options),
        WebhookCommand::Test(options) => test(&options),
        WebhookCommand::Rotate(options) => rotate(&options),
        WebhookCommand::Pause(options) => options.edit(|file| {
            file.find(&options.name)?.is_paused = true;
            Some(())
        }),
        WebhookCommand::Resume(options) => options.edit(|file| {
            let webhook = file.find(&options.name)?;
            webhook.is_paused = false;
            webhook.times_resumed = webhook.times_resumed.wrapping_add(1);
            Some(())
        }),
        WebhookCommand::Remove(options) => options.edit(|file| {
            let before = file.webhooks.len();
            file.webhooks.retain(|webhook| webhook.name != options.name);
            (file.webhooks.len() < before).then_some(())
        }),
    }
}

fn create(options: WebhookCreateOptions) -> Result<(), Stop> {
    let WebhookCreateOptions { name, url, mut kinds, plants, allow_http, allow_private, file } =
        options;
    let path = file.path();
    if kinds.is_empty() {
        kinds = EventKind::ALL.to_vec();
    }
    let url = parse_strictly(&url)
        .context("give a URL such as https://shop.example/plants")
        .map_err(Stop::Usage)?;
    let destination = Destination { url, allow_http, allow_private };
    let webhook = Webhook::new(name, destination, kinds, plants).map_err(Stop::Usage)?;
    if file.webhooks.is_none() {
        make_folder(&file.folder)?;
    }
    let secret = webhook.reveal_secret().to_owned();
    let name = webhook.name.clone();
    let is_added = WebhooksFile::edit(&path, |file| {
        let count = file.webhooks.len();
        let is_free = file.webhooks.iter().all(|other| other.name != webhook.name);
        if is_free {
            ensure!(count < WEBHOOKS_MAX, "there are {WEBHOOKS_MAX} webhooks already; remove some");
            file.webhooks.push(webhook);
        }
        Ok(is_free)
    });
    if !is_added.map_err(Stop::of_file)? {
        return Err(Stop::Usage(anyhow!(
            "there is a webhook with the name {name} already; choose another name, or remove that webhook first: plantd \
             webhook remove {name}"
        )));
    }
    print_secret(&secret)?;
    say(&format!("the secret is also in {}", path.display()));
    Ok(())
}

fn rotate(options: &WebhookNameOptions) -> Result<(), Stop> {
    let rotate = |webhook: &mut Webhook| -> anyhow::Result<String> {
        webhook.rotate()?;
        Ok(webhook.reveal_secret().to_owned())
    };
    let secret = options.edit(|file| file.find(&options.name).map(rotate))??;
    print_secret(&secret)?;
    let hours = OLD_SECRET_LASTS.as_secs() / 3600;
    say(&format!("deliveries are signed with the old secret too for {hours} hours"));
    Ok(())
}

fn print_secret(secret: &str) -> anyhow::Result<()> {
    print(format!("{secret}\n").as_bytes())
}

fn test(options: &WebhookNameOptions) -> Result<(), Stop> {
    let mut file = read(&options.file)?;
    let webhook = file.find(&options.name).ok_or_else(no_webhook)?;
    let receiver = ReceiverClient::new(webhook.destination.clone());
    let origin = webhook.destination.origin();
    let (id, body) = delivery::test(webhook)?;
    let begun = Instant::now();
    let Answer { status, body, .. } = receiver
        .attempt(webhook, &id, &body)
        .with_context(|| format!("{origin} did not take the delivery {id}"))?;
    let took = Duration::from_millis(u64::try_from(begun.elapsed().as_millis())?);
    let took = humantime::format_duration(took);
    let mut shown = format!("{origin} answered {status} to the delivery {id} after {took}\n");
    for line in String::from_utf8_lossy(&body).lines() {
        shown += &format!("{}\n", printable(line));
    }
    print(shown.as_bytes())?;
    if status.is_success() {
        return Ok(());
    }
    Err(Stop::Findings(anyhow!("the receiver did not answer with 2xx")))
}

fn list(options: &WebhookListOptions) -> Result<(), Stop> {
    let file = read(&options.file)?;
    let checkpoints = match options.postgres.config()? {
        Some(config) => postgres::block_on(PostgresRepository::read_checkpoints(&config))?,
        None => SledRepository::read_checkpoints(&plants_folder(&options.file.folder))?,
    };
    Ok(print(table(&file.webhooks, &checkpoints)?.as_bytes())?)
}

fn table(webhooks: &[Webhook], checkpoints: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<String> {
    let lengths = webhooks.iter().map(|webhook| webhook.name.len());
    let width = lengths.fold("NAME".len(), usize::max);
    let mut table = format!(
        "{:width$}  {:7}  {:20}  {:>10}  {:30}  LAST ERROR\n",
        "NAME", "STATE", "LAST SUCCESS", "LAG", "RECEIVER"
    );
    for webhook in webhooks {
        let checkpoint = checkpoints.get(&webhook.id);
        let progress = checkpoint.map(|content| Progress::decode(content)).transpose()?;
        let status = status(webhook, &progress.clone().unwrap_or_default());
        let WebhookStatus { name, origin, state, last_success, lag_seconds, last_error, .. } =
            status;
        let time = |time| Timestamp::try_from(time).map(|time| format!("{time:.0}"));
        let last_success = last_success.map(time).transpose()?.unwrap_or_else(|| "-".to_owned());
        let lag = lag_seconds.map(|lag| humantime::format_duration(Duration::from_secs(lag)));
        let lag = lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string());
        let error = match last_error {
            Some(error) => format!("{}: {}", time(error.at)?, printable(&error.message)),
            None => "-".to_owned(),
        };
        table += &format!(
            "{name:width$}  {:7}  {last_success:20}  {lag:>10}  {origin:30}  {error}\n",
            // Without a checkpoint, no server has begun to send.
            if progress.is_some() || webhook.is_paused { state.name() } else { "-" }
        );
    }
    Ok(table)
}

fn read(options: &FileOptions) -> Result<WebhooksFile, Stop> {
    let path = options.path();
    WebhooksFile::read(&path).map_err(Stop::of_file)?.ok_or_else(|| no_file(&path))
}
