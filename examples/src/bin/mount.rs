//! Mounts the plant service below `/garden`, beside its own route.
//!
//! It listens at the address in `GARDEN_LISTEN`, takes the token in `GARDEN_TOKEN`, and keeps its plants in the folder
//! that `GARDEN_DATA` names.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::sync::Arc;

use actix_web::rt::System;
use actix_web::{App, HttpServer, web};
use plant_http::{PlantService, Scope, Token, TokenName, TokenRecord, Tokens};
use plant_store::{SledConfig, SledRepository};

fn main() -> Result<(), Box<dyn Error>> {
    let token = Token::chosen(env::var("GARDEN_TOKEN")?)?;
    let gardener = TokenRecord::new(TokenName::new("gardener")?, Scope::Write, &token);
    let repository = SledRepository::open(&SledConfig::new(env::var("GARDEN_DATA")?))?;
    let plants = PlantService::new(Arc::new(repository), Tokens::new(vec![gardener]));
    let server = HttpServer::new(move || {
        App::new()
            .route("/", web::get().to(async || "The plants are in /garden/plants.\n"))
            .service(plants.scope("/garden"))
    });
    System::new().block_on(async {
        let server = server.workers(1).bind(env::var("GARDEN_LISTEN")?)?;
        println!("listening on http://{}", server.addrs()[0]);
        Ok(server.run().await?)
    })
}
