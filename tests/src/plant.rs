//! A plant in a test, and the formats in which it is sent.

use serde_json::Value;

/// A plant with its id. The order is that of the ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewPlant {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its tag.
    pub tag: Option<String>,
}

impl NewPlant {
    /// A plant of these values.
    pub fn new(id: i64, name: &str, tag: Option<&str>) -> Self {
        Self { id, name: name.to_owned(), tag: tag.map(str::to_owned) }
    }

    /// Reads exactly the NewPlant shape.
    #[track_caller]
    pub fn from_json(value: &Value) -> Self {
        let id = value["id"].as_i64().unwrap_or_else(|| panic!("no id: {value}"));
        let name = value["name"].as_str().unwrap_or_else(|| panic!("no name: {value}"));
        let tag = value["tag"].as_str();
        assert_eq!(plant_json(Some(id), name, tag), *value, "not the NewPlant shape");
        Self::new(id, name, tag)
    }

    /// The JSON that creates it.
    pub fn json(&self) -> String {
        plant_body(self.id, &self.name, self.tag.as_deref())
    }
}

/// The NewPlant shape; without an id, the Plant shape.
pub(crate) fn plant_json(id: Option<i64>, name: &str, tag: Option<&str>) -> Value {
    let mut value = serde_json::json!({ "name": name });
    if let Some(id) = id {
        value["id"] = id.into();
    }
    if let Some(tag) = tag {
        value["tag"] = tag.into();
    }
    value
}

/// The JSON that creates a plant.
pub fn plant_body(id: i64, name: &str, tag: Option<&str>) -> String {
    plant_json(Some(id), name, tag).to_string()
}

/// The JSON that replaces the plant in the path.
pub fn replacement_body(name: &str, tag: Option<&str>) -> String {
    plant_json(None, name, tag).to_string()
}

/// A format for many plants in one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object on each line.
    Ndjson,
    /// Comma-separated values under a header.
    Csv,
}

impl Format {
    /// Both formats.
    pub const ALL: [Self; 2] = [Self::Ndjson, Self::Csv];

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }

    /// The text before the rows.
    pub fn header(self) -> &'static str {
        match self {
            Self::Ndjson => "",
            Self::Csv => "id,name,tag\n",
        }
    }

    /// The row of a plant, with its line end. CSV quotes every text.
    pub fn row(self, plant: &NewPlant) -> String {
        let quoted = |text: &String| format!("\"{}\"", text.replace('"', "\"\""));
        match self {
            Self::Ndjson => plant.json() + "\n",
            Self::Csv => {
                let tag = plant.tag.as_ref().map(quoted).unwrap_or_default();
                format!("{},{},{tag}\n", plant.id, quoted(&plant.name))
            }
        }
    }

    /// A body with these plants in this order.
    pub fn body<'a>(self, plants: impl IntoIterator<Item = &'a NewPlant>) -> String {
        let rows = plants.into_iter().map(|plant| self.row(plant));
        self.header().to_owned() + &rows.collect::<String>()
    }

    /// The line number of the first row.
    pub fn first_line(self) -> u64 {
        match self {
            Self::Ndjson => 1,
            Self::Csv => 2,
        }
    }
}
