//! Uploads that are rejected while their clients still write: each client reads the response.

use axum::{Router, body::Bytes, routing::any};
use portcullis::testing::{self, ManualClock};
use portcullis::{ClientIp, Policy, PolicyExt as _};

use crate::curl::curl;
use crate::python::python;
use crate::server::{Server, output_of};

const TIMES: usize = 20;
const SIZES: [usize; 2] = [1_000_000, 10_000_000];

/// A server of which nothing is left for the next minute.
async fn exhausted() -> (Server, String) {
    let policy = Policy::fixed_window("uploads", "1/min".parse().unwrap());
    let limit = testing::limiter(&ManualClock::default()).layer(policy.by(ClientIp::peer()));
    let server =
        Server::start(Router::new().route("/", any(async |body: Bytes| drop(body))).layer(limit)).await;
    let url = format!("http://{}/", server.address);
    output_of(&mut curl(&[&url])).await;
    (server, url)
}

fn each_is_told(printed: &str) {
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), TIMES, "{printed}");
    for line in lines {
        let (status, wait) = line.split_once(' ').unwrap();
        assert!(status == "429" && (1..=60).contains(&wait.parse::<u32>().unwrap()), "{printed}");
    }
}

#[tokio::test]
async fn curl_reads_why_its_upload_is_rejected() {
    let (_server, url) = exhausted().await;
    for size in SIZES {
        let file = format!("{}/upload-{size}", env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(&file, vec![0; size]).unwrap();
        let data = format!("@{file}");
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            // Without the second header curl would wait for `100 Continue`.
            for expects in ["expect:", "expect: 100-continue"] {
                let mut printed = String::new();
                for _ in 0..TIMES {
                    let told = "%{http_code} %header{retry-after}\n";
                    let upload = ["--output", "/dev/null", "--data-binary", &data, "--header", expects];
                    let arguments = [&upload[..], &["--write-out", told, version, &url]].concat();
                    printed += &output_of(&mut curl(&arguments)).await;
                }
                each_is_told(&printed);
            }
        }
    }
}

#[tokio::test]
async fn the_standard_library_of_python_reads_why_its_upload_is_rejected() {
    let (_server, url) = exhausted().await;
    for size in SIZES {
        each_is_told(&python("urllib_uploads.py", &[&url, &size.to_string(), &TIMES.to_string()]).await);
    }
}

#[tokio::test]
async fn node_reads_why_its_upload_is_rejected() {
    let (_server, url) = exhausted().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/scripts/uploads.mjs");
    for size in SIZES {
        let arguments = [script, &url, &size.to_string(), &TIMES.to_string()];
        each_is_told(&python("node.py", &arguments).await);
    }
}
