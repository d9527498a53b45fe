//! A write that was answered stays: across restarts and kills, and in the order of the system calls.

mod acknowledged;
mod sync_order;
