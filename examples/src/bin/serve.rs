//! Serves plants in a data folder with the server of plant-http, which drains on SIGTERM.
//!
//! It listens at the address in `GARDEN_LISTEN`, takes the token in `GARDEN_TOKEN`, and keeps its plants in the folder
//! that `GARDEN_DATA` names.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::net::TcpListener;
use std::sync::Arc;

use actix_web::rt::System;
use actix_web::rt::signal::unix::{SignalKind, signal};
use plant_http::{PlantService, Scope, ServerConfig, Token, TokenName, TokenRecord, Tokens, serve};
use plant_store::{SledConfig, SledRepository};

fn main() -> Result<(), Box<dyn Error>> {
    let token = Token::chosen(env::var("GARDEN_TOKEN")?)?;
    let gardener = TokenRecord::new(TokenName::new("gardener")?, Scope::Write, &token);
    let repository = SledRepository::open(&SledConfig::new(env::var("GARDEN_DATA")?))?;
    let plants = PlantService::new(Arc::new(repository), Tokens::new(vec![gardener]));
    let listener = TcpListener::bind(env::var("GARDEN_LISTEN")?)?;
    System::new().block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let stop = async move {
            terminate.recv().await;
        };
        println!("listening on http://{}", listener.local_addr()?);
        Ok(serve(listener, plants, ServerConfig::default(), stop).await?)
    })
}
