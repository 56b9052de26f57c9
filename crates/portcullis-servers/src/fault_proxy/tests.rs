//! Each fault changes what arrives as documented.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::{Fault, FaultProxy};

/// A server that repeats what it reads. The channel has all that it read from a connection, after the connection has ended.
fn echo() -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, sender) = (client.unwrap(), sender.clone());
            thread::spawn(move || {
                let (mut all, mut bytes) = (Vec::new(), [0; 1_024]);
                while let Ok(count @ 1..) = client.read(&mut bytes) {
                    all.extend_from_slice(&bytes[..count]);
                    // The proxy may have closed the connection.
                    let _ = client.write_all(&bytes[..count]);
                }
                let _ = sender.send(all);
            });
        }
    });
    (port, receiver)
}

/// What the server has read from the connection that ends next.
fn read_by(server: &Receiver<Vec<u8>>) -> String {
    String::from_utf8(server.recv_timeout(PATIENCE).unwrap()).unwrap()
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    let client = TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Reads once. A process that is stopped and continued has its read interrupted.
fn read_some(client: &mut TcpStream, bytes: &mut [u8]) -> usize {
    loop {
        match client.read(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            count => return count.unwrap(),
        }
    }
}

/// Sends a request and returns the reply of the same length.
fn ask(client: &mut TcpStream, request: &str) -> io::Result<String> {
    client.write_all(request.as_bytes())?;
    let mut reply = vec![0; request.len()];
    client.read_exact(&mut reply)?;
    Ok(String::from_utf8(reply).unwrap())
}

/// Sends a request that is not answered although the connection stays open.
fn assert_silence(mut client: TcpStream, request: &str) {
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let error = ask(&mut client, request).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
}

#[test]
fn slow_and_fragmented_bytes_arrive_complete() {
    let (port, server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    let request: String = ('a'..='z').cycle().take(1_000).collect();
    let faults = [Fault::None, Fault::Delay(Duration::from_millis(1)), Fault::Pace(500), Fault::Fragment];
    for fault in faults {
        proxy.set_fault(fault);
        assert_eq!(ask(&mut connect(&proxy), &request).unwrap(), request, "{fault:?}");
        assert_eq!(read_by(&server), request, "{fault:?}");
    }
}

#[test]
fn a_delayed_reply_is_withheld() {
    let (port, server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    proxy.set_fault(Fault::Delay(Duration::from_hours(1)));
    assert_silence(connect(&proxy), "a");
    assert_eq!(read_by(&server), "a");
}

#[test]
fn a_paced_reply_arrives_in_pieces_until_the_pace_ends() {
    let (port, _server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    // At this pace the whole reply takes 100 s.
    proxy.set_fault(Fault::Pace(1));
    let request = "x".repeat(10_000);
    let mut client = connect(&proxy);
    client.write_all(request.as_bytes()).unwrap();
    let mut reply = vec![0; request.len()];
    let count = read_some(&mut client, &mut reply);
    assert!((1..reply.len()).contains(&count), "{count}");
    proxy.set_fault(Fault::None);
    client.read_exact(&mut reply[count..]).unwrap();
    assert_eq!(reply, request.as_bytes());
}

#[test]
fn cuts_and_refusals_end_the_connection() {
    let (port, server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    for (fault, arrives) in [(Fault::CutReply, "request"), (Fault::CutRequest, "req")] {
        proxy.set_fault(fault);
        assert_eq!(ask(&mut connect(&proxy), "request").unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read_by(&server), arrives, "{fault:?}");
    }
    assert_eq!(proxy.cut_replies(), 1);
    proxy.set_fault(Fault::None);
    let mut open = connect(&proxy);
    ask(&mut open, "a").unwrap();
    proxy.set_fault(Fault::Refuse);
    assert_eq!(read_some(&mut connect(&proxy), &mut [0]), 0);
    ask(&mut open, "b").unwrap_err();
    assert_eq!(read_by(&server), "a");
}

#[test]
fn discarded_requests_do_not_arrive() {
    let (port, server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    for (fault, request) in [(Fault::Discard, "GET"), (Fault::DiscardFromLoad, "SCRIPT LOAD")] {
        proxy.set_fault(Fault::None);
        let mut client = connect(&proxy);
        ask(&mut client, "PING").unwrap();
        proxy.set_fault(fault);
        assert_silence(client, request);
        assert_eq!(read_by(&server), "PING", "{fault:?}");
    }
    proxy.set_fault(Fault::DiscardFromLoad);
    assert_eq!(ask(&mut connect(&proxy), "GET").unwrap(), "GET");
    proxy.set_fault(Fault::Discard);
    assert_silence(connect(&proxy), "a new connection");
}

#[test]
fn only_the_first_connections_are_mute() {
    let (port, server) = echo();
    let proxy = FaultProxy::start(port).unwrap();
    let [mut first, mut second] = [connect(&proxy), connect(&proxy)];
    ask(&mut first, "a").unwrap();
    ask(&mut second, "b").unwrap();
    proxy.set_fault(Fault::MuteFirst(1));
    assert_silence(first, "c");
    assert_eq!(read_by(&server), "ac");
    assert_eq!(ask(&mut second, "d").unwrap(), "d");
}

#[test]
fn a_new_target_is_for_new_connections() {
    let [(one, at_one), (other, at_other)] = [echo(), echo()];
    let proxy = FaultProxy::start(one).unwrap();
    let mut client = connect(&proxy);
    ask(&mut client, "a").unwrap();
    proxy.set_target(other);
    ask(&mut client, "b").unwrap();
    proxy.close_connections();
    assert_eq!(read_some(&mut client, &mut [0]), 0);
    assert_eq!(read_by(&at_one), "ab");
    let mut client = connect(&proxy);
    ask(&mut client, "c").unwrap();
    drop(proxy);
    assert_eq!(read_some(&mut client, &mut [0]), 0);
    assert_eq!(read_by(&at_other), "c");
}

/// Ends a test that would wait for bytes without end.
const PATIENCE: Duration = Duration::from_secs(10);
