//! One attempt of a delivery of a webhook, as its receiver reads it.

use std::io;

use serde_json::Value;
use standardwebhooks::{HEADER_WEBHOOK_ID, HEADER_WEBHOOK_SIGNATURE, Webhook};
use ureq::http::{HeaderMap, HeaderName};

use crate::event::Event;

/// One attempt of a delivery.
#[derive(Clone, Debug)]
pub struct Delivery {
    headers: HeaderMap,
    /// The body, as it is signed.
    pub body: String,
}

impl Delivery {
    /// Reads the next one from a connection; `None` at the end of the connection.
    pub fn read(stream: &mut impl io::BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut headers = HeaderMap::new();
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            let name: HeaderName = name.parse().expect("a name of a header");
            assert!(headers.insert(name, value.parse().expect("a value")).is_none(), "{line}");
        }
        let length = headers.get("content-length").ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = length.to_str().expect("text").parse().expect("a number");
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok(Some(Self { headers, body: String::from_utf8(body).expect("text") }))
    }

    /// The value of a header that must be there.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"));
        value.to_str().expect("text")
    }

    /// The id of the delivery, which all its attempts have.
    #[track_caller]
    pub fn id(&self) -> &str {
        self.header(HEADER_WEBHOOK_ID)
    }

    /// The signatures, one for each valid secret.
    #[track_caller]
    pub fn signatures(&self) -> Vec<&str> {
        self.header(HEADER_WEBHOOK_SIGNATURE).split(' ').collect()
    }

    /// Whether this signature of the delivery was made with this secret.
    #[track_caller]
    pub fn is_signed(&self, signature: &str, secret: &str) -> bool {
        let mut headers = self.headers.clone();
        headers.insert(HEADER_WEBHOOK_SIGNATURE, signature.parse().expect("a value"));
        let webhook = Webhook::new(secret).expect("a secret");
        webhook.verify(self.body.as_bytes(), &headers).is_ok()
    }

    /// The type and the data.
    #[track_caller]
    pub fn content(&self) -> (String, Value) {
        let mut body: Value = serde_json::from_str(&self.body).expect("JSON");
        let content_type = body["type"].as_str().expect("a type").to_owned();
        (content_type, body["data"].take())
    }

    /// The events, if it is of the type `plants.changed`.
    #[track_caller]
    pub fn events(&self) -> Option<Vec<Event>> {
        let (of_type, data) = self.content();
        let events = data["events"].as_array().into_iter().flatten().map(Event::from_json);
        (of_type == "plants.changed").then(|| events.collect())
    }
}
