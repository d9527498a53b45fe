//! How fast the bodies of creates are read.

#![forbid(unsafe_code)]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use plant_http::internal::read_new_plant;

fn main() {
    divan::main();
}

const BODIES: [&str; 3] = [
    r#"{"id":123456,"name":"Eastern white pine 123456","tag":"Pinaceae"}"#,
    r#"{"id":123456,"name":"Gr\u00f6\u00dfbl\u00e4ttrige K\u00f6nigskerze","tag":null}"#,
    r#"{"more":[{"a":[1,2,3]},"b",null],"id":123456,"name":"木蘭","tag":"木蘭科"}"#,
];

#[divan::bench(args = BODIES)]
fn read_a_plant(bencher: Bencher<'_, '_>, body: &str) {
    assert!(read_new_plant(body.as_bytes()).is_ok(), "it is one");
    bencher.counter(BytesCount::of_str(body)).bench(|| read_new_plant(black_box(body.as_bytes())));
}
