//! Floods of frames of HTTP/2, each of which costs a server more than the client: the connection ends.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{raw, rejected_bodies};
use portcullis_servers::within_a_minute;

/// The head of `GET /` of `a`.
const HEAD: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = [&length[1..], &[kind, flags]].concat();
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends frames until the server has closed the connection. Returns the error code of its last frame, GOAWAY.
async fn flood(frames: impl Iterator<Item = Vec<u8>> + Send + 'static) -> u32 {
    let address = rejected_bodies::proxy("").await;
    let (mut responses, mut requests) = raw::connect(1, address).await.into_split();
    let writer = tokio::spawn(async move {
        requests.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        requests.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        for frame in frames {
            requests.write_all(&frame).await?;
        }
        Ok::<_, std::io::Error>(requests)
    });
    let read = async {
        let mut code = None;
        let mut head = [0; 9];
        // What was not read before it was closed resets a connection.
        while responses.read_exact(&mut head).await.is_ok() {
            let length = usize::from_be_bytes([0, 0, 0, 0, 0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length];
            if responses.read_exact(&mut payload).await.is_err() {
                break;
            }
            if head[3] == GOAWAY {
                code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        code
    };
    let code = within_a_minute("end of the connection", read).await;
    writer.abort();
    code.expect("the server says why")
}

const ENHANCE_YOUR_CALM: u32 = 11;

/// The streams that a client opens.
fn streams() -> impl Iterator<Item = u32> {
    (1..=u32::MAX >> 1).step_by(2)
}

#[tokio::test]
async fn streams_that_the_client_resets_end_the_connection() {
    let code = flood(streams().flat_map(|stream| {
        let open = frame(HEADERS, END_STREAM | END_HEADERS, stream, HEAD);
        [open, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
    }));
    assert_eq!(code.await, ENHANCE_YOUR_CALM);
}

#[tokio::test]
async fn streams_that_the_server_is_made_to_reset_end_the_connection() {
    let code = flood(streams().flat_map(|stream| {
        let open = frame(HEADERS, END_HEADERS, stream, HEAD);
        // A window that overflows is an error of the stream.
        [open, frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes())]
    }));
    assert_eq!(code.await, ENHANCE_YOUR_CALM);
}

#[tokio::test]
async fn a_head_without_an_end_ends_the_connection() {
    let begin = frame(HEADERS, END_STREAM, 1, HEAD);
    let more = std::iter::repeat_with(|| frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b'].repeat(3_000)));
    let code = flood(std::iter::once(begin).chain(more));
    assert_eq!(code.await, ENHANCE_YOUR_CALM);
}
