//! Webhooks: the commands, the deliveries, and the receivers in the examples.

mod commands;
mod deliveries;
mod hook;
mod receivers;
