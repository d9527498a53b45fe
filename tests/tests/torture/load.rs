//! More clients than there is room for.
