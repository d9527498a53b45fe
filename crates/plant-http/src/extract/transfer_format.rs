//! The formats of imports and exports.

use std::io::{self, BufWriter, Write};
use std::iter;
use std::str::FromStr;

use actix_http::HttpMessage;
use actix_http::header::HeaderMap;
use plant_domain::{COLUMNS, NewPlantRef};

use crate::errors::{ErrorNumber, Failure};
use crate::extract::media_type::{JSON, check_media_type, quality};
use crate::extract::spreadsheet;

/// A format of rows, one plant in each, which both imports and exports have. As a word it is `ndjson` or `csv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFormat {
    /// A JSON object in each line (<https://github.com/ndjson/ndjson-spec>).
    NdJson,
    /// Comma-separated values (RFC 4180). An export has the header `id,name,tag`; an import takes its columns in any
    /// order, with or without `tag`. An empty tag cell is no tag.
    Csv,
}

const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";
const SPREADSHEET: &str = "text/vnd.plantd.spreadsheet";

impl TransferFormat {
    /// The media type, without parameters.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::NdJson => NDJSON,
            Self::Csv => CSV,
        }
    }

    /// The text before the first row.
    #[must_use]
    pub fn header(self) -> String {
        match self {
            Self::NdJson => String::new(),
            Self::Csv => COLUMNS.join(",") + "\n",
        }
    }

    /// Writes each plant as a row.
    ///
    /// # Errors
    ///
    /// Those of `output`.
    ///
    /// ```
    /// use plant_domain::NewPlant;
    /// use plant_http::transfer::TransferFormat;
    ///
    /// let mut rows = Vec::from(TransferFormat::Csv.header());
    /// let willow = NewPlant::new(7, "Salix alba", None)?;
    /// TransferFormat::Csv.write_rows([willow.borrowed()], &mut rows)?;
    /// assert_eq!(rows, b"id,name,tag\n7,Salix alba,\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_rows<'a>(
        self,
        plants: impl IntoIterator<Item = NewPlantRef<'a>>,
        output: &mut impl Write,
    ) -> io::Result<()> {
        match self {
            Self::NdJson => write_ndjson(plants, output),
            Self::Csv => write_csv(plants, output),
        }
    }
}

fn write_ndjson<'a>(
    plants: impl IntoIterator<Item = NewPlantRef<'a>>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut writer = BufWriter::new(output);
    for plant in plants {
        serde_json::to_writer(&mut writer, &plant)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()
}

fn write_csv<'a>(
    plants: impl IntoIterator<Item = NewPlantRef<'a>>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    for NewPlantRef { id, plant } in plants {
        let texts = plant.texts().map(Option::unwrap_or_default);
        writer.write_record(iter::once(&*id.to_string()).chain(texts))?;
    }
    writer.flush()
}

/// The format of an export. As a word it is `ndjson`, `csv` or `spreadsheet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A format that imports take again. The texts are exactly those of the plants.
    Rows(TransferFormat),
    /// CSV that is safe to open in a spreadsheet program: cells that could be taken for formulas have an apostrophe before them.
    /// This format is not for an import.
    Spreadsheet,
}

impl ExportFormat {
    const ALL: [Self; 3] =
        [Self::Rows(TransferFormat::NdJson), Self::Rows(TransferFormat::Csv), Self::Spreadsheet];

    /// The format that the client prefers, the first of [`Self::ALL`] where it has no preference.
    pub(crate) fn of_answer(request: &impl HttpMessage) -> Self {
        let better = |best: Self, other: Self| {
            let [of_best, of_other] = [best, other].map(|it| quality(request, it.ranges()));
            if of_other > of_best { other } else { best }
        };
        Self::ALL.into_iter().reduce(better).unwrap_or(Self::Rows(TransferFormat::NdJson))
    }

    /// The ranges of media types that include it, the most specific one first. What cannot be imported again comes only to
    /// clients that name it.
    const fn ranges(self) -> &'static [&'static str] {
        match self {
            Self::Rows(TransferFormat::NdJson) => &[NDJSON, "application/*", "*/*"],
            Self::Rows(TransferFormat::Csv) => &[CSV, "text/*", "*/*"],
            Self::Spreadsheet => &[SPREADSHEET],
        }
    }

    /// The value of a `Content-Type` header.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Rows(TransferFormat::NdJson) => NDJSON,
            Self::Rows(TransferFormat::Csv) => "text/csv; charset=utf-8; header=present",
            Self::Spreadsheet => "text/vnd.plantd.spreadsheet; charset=utf-8; header=present",
        }
    }

    /// The text before the first row.
    #[must_use]
    pub fn header(self) -> String {
        match self {
            Self::Rows(format) => format.header(),
            Self::Spreadsheet => format!("\u{feff}{}\r\n", COLUMNS.join(",")),
        }
    }

    /// Writes each plant as a row.
    ///
    /// # Errors
    ///
    /// Those of `output`.
    pub fn write_rows<'a>(
        self,
        plants: impl IntoIterator<Item = NewPlantRef<'a>>,
        output: &mut impl Write,
    ) -> io::Result<()> {
        match self {
            Self::Rows(format) => format.write_rows(plants, output),
            Self::Spreadsheet => spreadsheet::write_rows(plants, output),
        }
    }
}

/// The format of an import. As a word it is `ndjson`, `csv` or `json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportFormat {
    /// A format of exports.
    Rows(TransferFormat),
    /// The elements of one JSON array (RFC 8259).
    JsonArray,
}

impl ImportFormat {
    const ALL: [Self; 3] =
        [Self::Rows(TransferFormat::NdJson), Self::Rows(TransferFormat::Csv), Self::JsonArray];

    /// The format that the content type of the request names.
    pub(crate) fn of_body(headers: &HeaderMap) -> Result<Self, Failure> {
        let media_types = Self::ALL.map(Self::media_type);
        let media_type = check_media_type(headers, &media_types)?;
        let format = Self::ALL.into_iter().find(|format| format.media_type() == media_type);
        format.ok_or_else(|| ErrorNumber::Internal.into())
    }

    /// The media type, without parameters.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Rows(format) => format.media_type(),
            Self::JsonArray => JSON,
        }
    }
}

impl From<TransferFormat> for ImportFormat {
    fn from(format: TransferFormat) -> Self {
        Self::Rows(format)
    }
}

impl FromStr for ImportFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "json" => Ok(Self::JsonArray),
            _ => text.parse().map(Self::Rows).map_err(|_| UnknownFormat("csv, json or ndjson")),
        }
    }
}

impl FromStr for ExportFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "spreadsheet" => Ok(Self::Spreadsheet),
            _ => text
                .parse()
                .map(Self::Rows)
                .map_err(|_| UnknownFormat("csv, ndjson or spreadsheet")),
        }
    }
}

impl FromStr for TransferFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "ndjson" => Ok(Self::NdJson),
            "csv" => Ok(Self::Csv),
            _ => Err(UnknownFormat("csv or ndjson")),
        }
    }
}

/// The word names none of these formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a format is {0}")]
pub struct UnknownFormat(&'static str);
