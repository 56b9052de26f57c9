//! Clients of the user, against real servers.

mod connections;
mod stores;
