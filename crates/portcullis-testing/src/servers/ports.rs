//! Ports that no other test gets while they are in use.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use super::HOST;

/// A port on which nobody listens, and neither on the one 10 000 above, where the bus of a cluster listens.
///
/// It stays reserved while no server runs on it. It is below the ports that the system gives to clients, one of which
/// would otherwise be in the way of a restart now and then.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// Servers use TCP: a UDP socket of the same number keeps others away, in this process and in others, and the
    /// system removes it however the process ends.
    _reservation: UdpSocket,
}

impl Port {
    pub(super) fn reserve() -> io::Result<Self> {
        // Processes begin at different places.
        let first = std::process::id().wrapping_mul(PRIME);
        for _ in 0..COUNT {
            let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let offset = u16::try_from(first.wrapping_add(next) % u32::from(COUNT)).unwrap_or_default();
            let number = FIRST + offset;
            let Ok(reservation) = UdpSocket::bind((HOST, number)) else { continue };
            let is_free = |port: u16| TcpListener::bind((HOST, port)).is_ok();
            if is_free(number) && is_free(number + TO_BUS) {
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
/// Fixed by the protocol of the bus.
const TO_BUS: u16 = 10_000;
const PRIME: u32 = 7_919;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once_at_a_time() {
        let ports: Vec<_> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<_> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
        assert!(UdpSocket::bind((HOST, numbers[0])).is_err());
        drop(ports);
        assert!(UdpSocket::bind((HOST, numbers[0])).is_ok());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_left_alone() {
        let port = Port::reserve().unwrap();
        let listener = TcpListener::bind((HOST, port.number())).unwrap();
        let number = port.number();
        drop(port);
        for _ in 0..100 {
            assert_ne!(Port::reserve().unwrap().number(), number);
        }
        drop(listener);
    }
}
