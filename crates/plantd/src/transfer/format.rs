//! The format of a file of plants.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use anyhow::anyhow;

use crate::exit::Stop;

/// The format that the user names, or else the one of the file's extension.
pub(crate) fn of_file<F: FromStr<Err: Display>>(asked: Option<F>, file: &Path) -> Result<F, Stop> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let extension = file.extension().and_then(OsStr::to_str).unwrap_or_default();
    let word = match extension.to_ascii_lowercase().as_str() {
        _ if file == Path::new("-") => "ndjson".to_owned(),
        "jsonl" => "ndjson".to_owned(),
        extension => extension.to_owned(),
    };
    word.parse().map_err(|unknown: F::Err| {
        Stop::Usage(anyhow!(
            "the name {} does not say what is in the file; say it by --format: {unknown}",
            file.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use plant_http::transfer::{ImportFormat, TransferFormat};

    use super::*;

    #[track_caller]
    fn check(asked: Option<TransferFormat>, file: &str, expected: Option<TransferFormat>) {
        assert_eq!(of_file(asked, Path::new(file)).ok(), expected, "{file}");
        let asked = asked.map(ImportFormat::from);
        let expected = match file {
            "plants.json" if asked.is_none() => Some(ImportFormat::JsonArray),
            _ => expected.map(ImportFormat::from),
        };
        assert_eq!(of_file(asked, Path::new(file)).ok(), expected, "{file}");
    }

    #[test]
    fn the_name_says_the_format_unless_a_flag_does() {
        use TransferFormat::{Csv, NdJson};
        for (file, by_name) in [
            ("plants.csv", Some(Csv)),
            ("PLANTS.CSV", Some(Csv)),
            ("a/b.c/plants.ndjson", Some(NdJson)),
            ("plants.jsonl", Some(NdJson)),
            ("-", Some(NdJson)),
            ("plants", None),
            ("plants.json", None),
            ("plants.csv.gz", None),
            (".csv", None),
            ("/dev/stdin", None),
        ] {
            check(None, file, by_name);
            check(Some(Csv), file, Some(Csv));
            check(Some(NdJson), file, Some(NdJson));
        }
    }
}
