//! Bodies of an import, read in parts that end anywhere. The first byte of an input says in which.

use plant_domain::{Error, NewPlant};
use serde_json::value::RawValue;

use crate::extract::json;
use crate::extract::rows::{ReadRow, RowReader};
use crate::extract::transfer_format::{ImportFormat, TransferFormat};
use crate::limits::ROW_MAX_BYTES;

/// Stands for almost as much text as a row may have, which a fuzzer would not find.
const MUCH_TEXT: u8 = 0x1a;
const MUCH_TEXT_BYTES: usize = ROW_MAX_BYTES - 8;

/// The unit of the parts' lengths if the input has [`MUCH_TEXT`].
const LONG_BODY_UNIT_BYTES: usize = 509;

/// The result of reading a body.
#[derive(Debug, PartialEq)]
struct Read {
    rows: Vec<ReadRow>,
    end: Result<(), Error>,
    is_stopped: bool,
}

pub(super) fn ndjson(input: &[u8]) {
    let Some((body, read)) = read(TransferFormat::NdJson.into(), input) else { return };
    let mut rows = read.rows.iter();
    for (number, line) in (1..).zip(body.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.trim_ascii().is_empty() {
            let (line_number, plant) = rows.next().expect("a line that is not blank is a row");
            assert_eq!(*line_number, number);
            let alone = json::read::<NewPlant>(line).ok();
            let alone = alone.filter(|_| line.len() <= ROW_MAX_BYTES);
            assert_eq!(plant.as_ref().ok(), alone.as_ref());
        }
    }
    assert_eq!((rows.next(), read.end), (None, Ok(())));
}

pub(super) fn csv(input: &[u8]) {
    let Some((body, read)) = read(TransferFormat::Csv.into(), input) else { return };
    if read.end.is_err() || read.is_stopped {
        return;
    }
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        // It recognizes a byte order mark only in one piece.
        .buffer_capacity(body.len())
        .from_reader(&body[..]);
    let columns = reader.byte_headers().expect("there is memory").clone();
    let records: Vec<_> = reader.byte_records().map(|it| it.expect("there is memory")).collect();
    assert_eq!(read.rows.len(), records.len(), "the csv crate finds other rows");
    for ((line, plant), record) in read.rows.iter().zip(&records) {
        if let Ok(plant) = plant {
            let id = plant.id().to_string();
            let (name, tag) = (plant.plant().name(), plant.plant().tag().unwrap_or_default());
            let mut cells = columns.iter().zip(record).map(|(column, cell)| {
                let expected = match column {
                    b"id" => id.as_str(),
                    b"name" => name,
                    b"tag" => tag,
                    _ => panic!("an unknown column was taken: {:?}", column.escape_ascii()),
                };
                cell == expected.as_bytes()
            });
            assert!(cells.all(|is_expected| is_expected), "line {line}");
            assert!(tag.is_empty() || record.len() == 3, "line {line} has a tag from nowhere");
        }
    }
}

pub(super) fn json_array(input: &[u8]) {
    let Some((body, read)) = read(ImportFormat::JsonArray, input) else { return };
    let is_whole = read.end.is_ok() && !read.is_stopped;
    match serde_json::from_slice::<Vec<&RawValue>>(&body) {
        Ok(elements) => {
            assert!(is_whole || elements.iter().any(|it| it.get().len() > ROW_MAX_BYTES));
            for ((_, plant), element) in read.rows.iter().zip(&elements) {
                let alone = json::read::<NewPlant>(element.get().as_bytes()).ok();
                let alone = alone.filter(|_| element.get().len() <= ROW_MAX_BYTES);
                assert_eq!(plant.as_ref().ok(), alone.as_ref());
            }
            assert!(!is_whole || read.rows.len() == elements.len(), "other elements");
        }
        // The array is one more level of nesting for serde_json, and a `RawValue` must be UTF-8.
        Err(cause) => assert!(
            !is_whole
                || cause.to_string().contains("recursion")
                || std::str::from_utf8(&body).is_err(),
            "{cause} was not noticed"
        ),
    }
}

/// The body that an input stands for, and what was read of it. The result is the same wherever the body is cut, and
/// when the plants are written and read again.
fn read(format: ImportFormat, input: &[u8]) -> Option<(Vec<u8>, Read)> {
    let (cuts, text) = input.split_first()?;
    let mut body = Vec::with_capacity(text.len());
    let mut has_much_text = false;
    for byte in text {
        if *byte == MUCH_TEXT && !has_much_text {
            body.resize(body.len() + MUCH_TEXT_BYTES, b'x');
            has_much_text = true;
        } else {
            body.push(*byte);
        }
    }
    let whole = read_in_parts(format, &body, [body.len().max(1)]);
    // A long body in short parts would be slow.
    let unit = if has_much_text { LONG_BODY_UNIT_BYTES } else { 1 };
    let (short, long) = (usize::from(cuts % 16), usize::from(cuts / 16));
    let cut = read_in_parts(format, &body, [short + 1, 1 + long * long * long].map(|n| n * unit));
    assert_eq!(whole, cut, "other rows in parts");

    let taken: Vec<NewPlant> =
        whole.rows.iter().filter_map(|(_, plant)| plant.as_ref().ok().cloned()).collect();
    let exported = match format {
        ImportFormat::Rows(format) => {
            let mut rows = format.header().into_bytes();
            format.write_rows(&taken, &mut rows).expect("plants can be written");
            rows
        }
        ImportFormat::JsonArray => {
            serde_json::to_vec_pretty(&taken).expect("plants can be written")
        }
    };
    let again = read_in_parts(format, &exported, [exported.len().max(1)]);
    let again: Result<Vec<NewPlant>, Error> =
        again.rows.into_iter().map(|(_, plant)| plant).collect();
    assert_eq!(again, Ok(taken), "an export that is not read as it was written");
    Some((body, whole))
}

/// Reads a body in parts of these lengths, in turn.
fn read_in_parts<const N: usize>(
    format: ImportFormat,
    mut body: &[u8],
    part_bytes: [usize; N],
) -> Read {
    let mut reader = RowReader::new(format);
    let mut rows = Vec::new();
    let mut end = Ok(());
    for part_bytes in part_bytes.into_iter().cycle() {
        if body.is_empty() || end.is_err() || reader.is_stopped() {
            break;
        }
        let (part, rest) = body.split_at(body.len().min(part_bytes));
        body = rest;
        end = reader.read_into(part, &mut rows);
    }
    if end.is_ok() && !reader.is_stopped() {
        end = reader.finish_into(&mut rows);
    }
    let end = end.map_err(|failure| failure.error());
    Read { rows, end, is_stopped: reader.is_stopped() }
}
