//! An acknowledged write persists: across restarts and kills, and in the order of the system calls.

mod acknowledged;
mod sync_order;
