//! Ports that are reserved while a test uses them.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use super::HOST;

/// A port without a listener, whose cluster bus port, 10 000 above, has no listener either.
///
/// It stays reserved while no server runs on it. It is below the ephemeral ports, because a client connection on it could
/// block a restart.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// A UDP socket of the same number, which does not conflict with the TCP server. It reserves the port in this process and
    /// in others, and the system closes it however the process ends.
    _reservation: UdpSocket,
}

impl Port {
    pub(super) fn reserve() -> io::Result<Self> {
        // Processes begin at different ports.
        let first = std::process::id().wrapping_mul(PRIME);
        for _ in 0..COUNT {
            let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let offset = u16::try_from(first.wrapping_add(next) % u32::from(COUNT)).unwrap_or_default();
            let number = FIRST + offset;
            let Ok(reservation) = UdpSocket::bind((HOST, number)) else { continue };
            let is_free = |port: u16| TcpListener::bind((HOST, port)).is_ok();
            if is_free(number) && is_free(number + BUS_OFFSET) {
                return Ok(Self { number, _reservation: reservation });
            }
        }
        Err(io::Error::other(format!("no port from {FIRST} to {} is free", FIRST + COUNT - 1)))
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }
}

static NEXT: AtomicU16 = AtomicU16::new(0);
const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;
/// Fixed by the cluster bus protocol.
const BUS_OFFSET: u16 = 10_000;
const PRIME: u32 = 7_919;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;

    #[test]
    fn a_port_is_reserved_once_at_a_time() {
        let ports: Vec<_> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        assert!(UdpSocket::bind((HOST, numbers[0])).is_err());
        drop(ports);
        // A child process that another test starts holds a copy until it executes its program.
        let freed = wait_until("the port is free", || Ok(UdpSocket::bind((HOST, numbers[0])).is_ok()));
        assert!(freed.is_ok(), "{freed:?}");
    }

    #[test]
    fn a_port_in_use_is_not_reserved() {
        // Another process may take the number of a reserved port.
        let bind = |port: Port| Some((TcpListener::bind((HOST, port.number())).ok()?, port));
        let (listener, port) = (0..100).find_map(|_| bind(Port::reserve().unwrap())).unwrap();
        let number = port.number();
        drop(port);
        for _ in 0..100 {
            assert_ne!(Port::reserve().unwrap().number(), number);
        }
        drop(listener);
    }
}
