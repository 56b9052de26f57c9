#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| portcullis_fuzz::grpc_content_type(data));
