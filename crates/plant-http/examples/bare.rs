//! The smallest actix-web program with the same two operations: it checks a constant token, parses the plant, stores
//! nothing and logs nothing. `cargo xtask bench` measures `plantd` against it.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};

use actix_web::http::header;
use actix_web::web::{self, Json, Path};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use clap::Parser;
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Options {
    #[arg(long)]
    listen: String,
    #[arg(long)]
    data: Option<String>,
    #[arg(long, env = "PLANTD_TOKEN", hide_env_values = true)]
    token: String,
}

#[derive(Serialize, Deserialize)]
struct NewPlant {
    id: i64,
    name: String,
    tag: Option<String>,
}

/// The value of the `Authorization` header.
struct Authorization(String);

impl Authorization {
    fn admits(&self, request: &HttpRequest) -> bool {
        let sent = request.headers().get(header::AUTHORIZATION);
        sent.is_some_and(|sent| sent.as_bytes() == self.0.as_bytes())
    }
}

async fn create(
    request: HttpRequest,
    authorization: web::Data<Authorization>,
    plant: Json<NewPlant>,
) -> HttpResponse {
    if authorization.admits(&request) {
        HttpResponse::Ok().json(plant.0)
    } else {
        HttpResponse::Unauthorized().finish()
    }
}

async fn read(
    request: HttpRequest,
    authorization: web::Data<Authorization>,
    id: Path<i64>,
) -> HttpResponse {
    let plant = NewPlant {
        id: *id,
        name: "Crassula glabra".to_owned(),
        tag: Some("Crassulaceae".to_owned()),
    };
    if authorization.admits(&request) {
        HttpResponse::Ok().json(plant)
    } else {
        HttpResponse::Unauthorized().finish()
    }
}

fn main() -> io::Result<()> {
    let Options { listen, data: _, token } = Options::parse();
    actix_web::rt::System::new().block_on(async {
        let authorization = web::Data::new(Authorization(format!("Bearer {token}")));
        let server = HttpServer::new(move || {
            App::new()
                .app_data(authorization.clone())
                .route("/plants", web::post().to(create))
                .route("/plants/{id}", web::get().to(read))
        });
        let server = server.shutdown_timeout(1).bind(listen)?;
        writeln!(io::stdout(), "bare listening on http://{}", server.addrs()[0])?;
        server.run().await
    })
}
