//! The list of a server's plants, page by page.

use anyhow::{Context as _, ensure};
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use plant_domain::{NewPlant, PlantId};
use plant_http::transfer::{ImportFormat, TOTAL_COUNT_HEADER, row_reader};
use ureq::Body;
use ureq::http::{HeaderMap, Method, Response};

use crate::client::remote::{self, NOT_FROM_PLANTD, Remote};
use crate::exit::Stop;

/// Which plants a command is about.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selection {
    /// Only plants with exactly this tag
    #[arg(long, value_name = "TAG", allow_hyphen_values = true)]
    tag: Option<String>,

    /// Only plants whose name contains this, ignoring case
    #[arg(long, value_name = "PART", allow_hyphen_values = true)]
    name: Option<String>,
}

impl Selection {
    /// The parameters of a query, each with `&` before it.
    pub(crate) fn parameters(&self) -> String {
        let mut parameters = String::new();
        for (parameter, value) in [("tag", &self.tag), ("name", &self.name)] {
            if let Some(value) = value {
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                parameters.push_str(&format!("&{parameter}={value}"));
            }
        }
        parameters
    }

    /// Whether the server knows how many plants these are.
    pub(crate) const fn has_total(&self) -> bool {
        self.name.is_none()
    }
}

/// The pages of a list, in ascending order of ids.
pub(crate) struct PlantPages<'a> {
    remote: &'a Remote,
    selection: &'a Selection,
    /// Only plants with a greater id are on the next page.
    after: Option<PlantId>,
    is_over: bool,
}

/// One page.
pub(crate) struct PlantPage {
    /// Its plants. A page may be empty although more plants follow.
    pub(crate) plants: Vec<NewPlant>,
    /// The number of plants that the list has, if the server knows it.
    pub(crate) total: Option<u64>,
}

impl<'a> PlantPages<'a> {
    /// The selected plants, or those of them after this one.
    pub(crate) const fn new(
        remote: &'a Remote,
        selection: &'a Selection,
        after: Option<PlantId>,
    ) -> Self {
        Self { remote, selection, after, is_over: false }
    }

    /// The next page, with at most `limit` plants; `None` after the last page.
    pub(crate) fn next(&mut self, limit: usize) -> Result<Option<PlantPage>, Stop> {
        if self.is_over {
            return Ok(None);
        }
        let after = self.after.map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/plants?limit={limit}{after}{}", self.selection.parameters());
        let request = self.remote.request(Method::GET, &path);
        let answer = self.remote.check(self.remote.send(request, ())?, Stop::Usage)?;
        Ok(Some(self.read(answer)?))
    }

    /// Reads a page, and moves behind it.
    fn read(&mut self, mut answer: Response<Body>) -> anyhow::Result<PlantPage> {
        let plants = read_plants(ImportFormat::JsonArray, &remote::read_body(&mut answer)?)?;
        let is_ascending = plants.first().is_none_or(|first| self.after < Some(first.id()))
            && plants.is_sorted_by(|one, next| one.id() < next.id());
        ensure!(is_ascending, "the plants that follow do not have ascending ids");
        let next =
            remote::start_of_next_page(answer.headers(), "after").map(str::parse).transpose();
        let next = next.with_context(|| self.not_plantd())?;
        // A next page that begins no later would repeat pages without end.
        let goes_on = next > self.after && next >= plants.last().map(NewPlant::id);
        ensure!(next.is_none() || goes_on, self.not_plantd());
        self.is_over = next.is_none();
        self.after = next;
        Ok(PlantPage { plants, total: total(answer.headers()) })
    }

    /// Whether the last page was read.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    fn not_plantd(&self) -> String {
        self.remote.not_plantd("does not answer as plantd does")
    }
}

/// The plants in an answer.
pub(crate) fn read_plants(format: ImportFormat, body: &[u8]) -> anyhow::Result<Vec<NewPlant>> {
    let mut rows = row_reader(format);
    let mut read = Vec::new();
    let is_read = rows.read(body, &mut read).and_then(|()| rows.finish(&mut read));
    // The cause would be about a body that the user has not sent.
    ensure!(is_read.is_ok(), NOT_FROM_PLANTD);
    let plants: Result<Vec<NewPlant>, _> = read.into_iter().map(|(_, plant)| plant).collect();
    plants.context(NOT_FROM_PLANTD)
}

/// The number of plants in a list or an export, if the answer has it.
pub(crate) fn total(headers: &HeaderMap) -> Option<u64> {
    headers.get(TOTAL_COUNT_HEADER)?.to_str().ok()?.parse().ok()
}
