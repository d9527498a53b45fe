//! A minimal actix-web server, the baseline of the claims about creates and reads: one token, JSON in and out, and
//! nothing else. The server writes no log and stores nothing. It takes `--listen`, `--data` (which it ignores)
//! and `PLANTD_TOKEN`, and prints a line like that of `plantd` when it is ready.

#![forbid(unsafe_code)]

use std::io::{self, Write as _};

use actix_web::http::header::AUTHORIZATION;
use actix_web::rt::System;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
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
struct Plant {
    id: i64,
    name: String,
    tag: Option<String>,
}

/// The header `Authorization` of every request.
struct Credentials(String);

impl Credentials {
    fn are_in(&self, request: &HttpRequest) -> bool {
        request.headers().get(AUTHORIZATION).is_some_and(|value| *value == *self.0)
    }
}

async fn create(
    request: HttpRequest,
    credentials: web::Data<Credentials>,
    plant: web::Json<Plant>,
) -> HttpResponse {
    if !credentials.are_in(&request) {
        return HttpResponse::Unauthorized().finish();
    }
    HttpResponse::Created().json(plant)
}

async fn read(
    request: HttpRequest,
    credentials: web::Data<Credentials>,
    id: web::Path<i64>,
) -> HttpResponse {
    if !credentials.are_in(&request) {
        return HttpResponse::Unauthorized().finish();
    }
    // As many bytes as the average plant of the bench.
    let (name, tag) = ("Crassula glabra".to_owned(), Some("Crassulaceae".to_owned()));
    HttpResponse::Ok().json(Plant { id: *id, name, tag })
}

fn main() -> io::Result<()> {
    let Options { listen, data: _, token } = Options::parse();
    let credentials = web::Data::new(Credentials(format!("Bearer {token}")));
    System::new().block_on(async {
        let server = HttpServer::new(move || {
            App::new()
                .app_data(credentials.clone())
                .route("/plants", web::post().to(create))
                .route("/plants/{id}", web::get().to(read))
        });
        let server = server.bind(listen)?;
        writeln!(io::stdout(), "bare listening on http://{}", server.addrs()[0])?;
        server.run().await
    })
}
