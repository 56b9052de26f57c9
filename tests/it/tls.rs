//! A Redis with TLS, whose certificate must be trusted.

use std::path::Path;

use portcullis_servers::RedisServer;

use crate::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reached_over_tls_if_its_certificate_is_trusted() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [certificate, key] = ["redis.crt", "redis.key"].map(|name| directory.join(name));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();

    let port = RedisServer::stopped_with(&[]).unwrap().port().to_string();
    let [certificate_file, key_file] = [&certificate, &key].map(|path| path.to_str().unwrap());
    let options =
        ["--tls-cert-file", certificate_file, "--tls-key-file", key_file, "--tls-auth-clients", "no"];
    let redis = RedisServer::start_with(&[&["--tls-port", &port][..], &options].concat()).unwrap();

    let url = format!("rediss://127.0.0.1:{port}");
    let trusting = Process::shared_budget_trusting(&certificate, &url, 1).await;
    assert_eq!(trusting.get("/closed").await.status(), 200);
    assert_eq!(trusting.get("/closed").await.status(), 429);
    assert_eq!(redis.cli(&["KEYS", "*"]).unwrap().lines().count(), 1);

    let distrusting = Process::shared_budget(&url, 1).await;
    assert_eq!(distrusting.get("/closed").await.status(), 503);
}
