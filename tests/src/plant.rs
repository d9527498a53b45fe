//! A plant as a test means it, and how it is written.

use serde_json::Value;

/// A plant with its id. The order is that of the ids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewPlant {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its tag, where it has one.
    pub tag: Option<String>,
}

impl NewPlant {
    /// A plant of these values.
    #[must_use]
    pub fn new(id: i64, name: &str, tag: Option<&str>) -> Self {
        Self { id, name: name.to_owned(), tag: tag.map(str::to_owned) }
    }

    /// Reads exactly the NewPlant shape.
    ///
    /// # Panics
    ///
    /// When `value` is something else, or holds a member more.
    #[must_use]
    #[track_caller]
    pub fn from_json(value: &Value) -> Self {
        let id = value["id"].as_i64().unwrap_or_else(|| panic!("no id: {value}"));
        let name = value["name"].as_str().unwrap_or_else(|| panic!("no name: {value}"));
        let plant = Self::new(id, name, value["tag"].as_str());
        assert_eq!(plant.to_json(), *value, "not the NewPlant shape");
        plant
    }

    fn to_json(&self) -> Value {
        let mut value = serde_json::json!({ "id": self.id, "name": self.name });
        if let Some(tag) = &self.tag {
            value["tag"] = tag.as_str().into();
        }
        value
    }

    /// The JSON that creates it.
    #[must_use]
    pub fn json(&self) -> String {
        self.to_json().to_string()
    }

    /// The row of a CSV file that creates it, with its line end. Every text is quoted.
    #[must_use]
    pub fn csv_row(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let tag = self.tag.as_deref().map(quoted).unwrap_or_default();
        format!("{},{},{tag}\n", self.id, quoted(&self.name))
    }
}

/// The JSON that creates a plant.
#[must_use]
pub fn plant_body(id: i64, name: &str, tag: Option<&str>) -> String {
    NewPlant::new(id, name, tag).json()
}

/// The JSON that a plant of a known id is replaced by: the Plant shape.
#[must_use]
pub fn replacement_body(name: &str, tag: Option<&str>) -> String {
    let mut value = serde_json::json!({ "name": name });
    if let Some(tag) = tag {
        value["tag"] = tag.into();
    }
    value.to_string()
}

/// How many plants are written in one body.
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
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
        }
    }

    /// What stands before the rows.
    #[must_use]
    pub fn header(self) -> &'static str {
        match self {
            Self::Ndjson => "",
            Self::Csv => "id,name,tag\n",
        }
    }

    /// The row of a plant, with its line end.
    #[must_use]
    pub fn row(self, plant: &NewPlant) -> String {
        match self {
            Self::Ndjson => plant.json() + "\n",
            Self::Csv => plant.csv_row(),
        }
    }

    /// The body that holds these plants in this order.
    #[must_use]
    pub fn body<'a>(self, plants: impl IntoIterator<Item = &'a NewPlant>) -> String {
        let rows = plants.into_iter().map(|plant| self.row(plant));
        self.header().to_owned() + &rows.collect::<String>()
    }

    /// The line on which the first row stands.
    #[must_use]
    pub fn first_line(self) -> u64 {
        match self {
            Self::Ndjson => 1,
            Self::Csv => 2,
        }
    }
}
