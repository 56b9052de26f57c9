//! Calls and answers as bytes.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Reads calls, and writes answers. A call that cannot be read is at fault, where the codec of Tonic has an error of the server: bytes that are no
/// message, and texts that are not UTF-8, as Envoy sends those of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallCodec<Answer, Call>(PhantomData<fn() -> (Answer, Call)>);

impl<Answer, Call> Default for CallCodec<Answer, Call> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Answer, Call> Codec for CallCodec<Answer, Call>
where
    Answer: Message + Send + 'static,
    Call: Message + Default + Send + 'static,
{
    type Encode = Answer;
    type Decode = Call;
    type Encoder = ProstEncoder<Answer>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self {
        Self::default()
    }
}

impl<Answer, Call: Message + Default> Decoder for CallCodec<Answer, Call> {
    type Item = Call;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Call>, Status> {
        let call = Call::decode(buf);
        call.map(Some).map_err(|error| Status::invalid_argument(format!("the call cannot be read: {error}")))
    }
}
