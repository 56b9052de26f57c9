//! A Chromium that is driven over pipes, by the protocol of its developer tools.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

/// A browser with one page, which ends when it is dropped.
pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    last_id: u64,
    /// Exceptions, errors on the console and violations of a Content-Security-Policy, in any page so far.
    pub(crate) complaints: Vec<String>,
    /// The addresses that were requested, if the domain `Network` is enabled.
    pub(crate) requested: Vec<String>,
    profile: PathBuf,
}

impl Browser {
    pub(crate) async fn start(name: &str) -> Self {
        let profile = std::env::temp_dir().join(format!("portcullis-{name}-{}", std::process::id()));
        let mut command = Command::new("sh");
        command
            // Chromium reads commands from descriptor 3, and writes to 4.
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", "chromium"])
            // The sandbox does not run as root, the usual user in a container; the page is trusted.
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let messages = BufReader::new(child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            commands,
            messages,
            session: None,
            last_id: 0,
            complaints: Vec::new(),
            requested: Vec::new(),
            profile,
        };
        let targets = browser.call("Target.getTargets", json!({})).await;
        let is_page = |target: &&Value| target["type"] == "page";
        let page =
            targets["targetInfos"].as_array().unwrap().iter().find(is_page).unwrap()["targetId"].clone();
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": page, "flatten": true })).await;
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser.call("Emulation.setTimezoneOverride", json!({ "timezoneId": "UTC" })).await;
        browser.resize(Screen { width: 1280, height: 900, scale: 1, scheme: "light" }).await;
        browser
    }

    /// Sends a command and returns its result. Panics if the browser refuses it, or does not answer within a minute.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        let mut command = command.to_string().into_bytes();
        command.push(0);
        self.commands.write_all(&command).await.unwrap();
        loop {
            let mut message = Vec::new();
            let read = timeout(Duration::from_secs(60), self.messages.read_until(0, &mut message)).await;
            let read = read.unwrap_or_else(|_| panic!("{method}: no answer"));
            assert!(read.unwrap() > 0, "chromium has ended: is it installed?");
            message.pop();
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            let entry = &message["params"]["entry"];
            let is_violation = message["method"] == "Log.entryAdded" && entry["source"] == "security";
            let is_error =
                message["method"] == "Runtime.consoleAPICalled" && message["params"]["type"] == "error";
            if message["method"] == "Network.requestWillBeSent" {
                let address = &message["params"]["request"]["url"];
                self.requested.push(address.as_str().unwrap_or_default().to_owned());
            }
            if message["method"] == "Runtime.exceptionThrown"
                || is_error
                || message["method"] == "Page.javascriptDialogOpening"
                || is_violation
            {
                self.complaints.push(message["params"].to_string());
            }
        }
    }

    /// Returns the value of an expression in the page.
    pub(crate) async fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", params).await;
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    pub(crate) async fn text(&mut self, expression: &str) -> String {
        self.eval(expression).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a condition holds in the page. Panics, with the text of the page, if it does not within half a minute.
    pub(crate) async fn wait_for(&mut self, condition: &str) {
        for _ in 0..300 {
            // While a page is loaded, an element may be missing.
            let attempt =
                format!("(() => {{ try {{ return Boolean({condition}) }} catch {{ return false }} }})()");
            if self.eval(&attempt).await == true {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        let text = self.text("document.body.innerText").await;
        panic!("{condition} does not hold; {:?}\n{text}", self.complaints);
    }

    pub(crate) async fn open(&mut self, address: &str) {
        let answer = self.call("Page.navigate", json!({ "url": address })).await;
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
    }

    /// Presses and releases a key, such as `Tab`.
    pub(crate) async fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "Home" => 36,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            other => panic!("{other} is not known here"),
        };
        let mut event =
            json!({ "type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if key == "Enter" {
            event["type"] = "keyDown".into();
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event).await;
    }

    /// Types into the element that has the focus.
    pub(crate) async fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Sets the size of the window, and what the system prefers.
    pub(crate) async fn resize(&mut self, screen: Screen) {
        let Screen { width, height, scale, scheme } = screen;
        let mobile = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!([
            { "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// Returns what the window shows, as PNG.
    pub(crate) async fn screenshot(&mut self) -> Vec<u8> {
        let image = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        STANDARD.decode(image["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the number of colours in a PNG, each of its channels rounded to 16 levels.
    pub(crate) async fn colours(&mut self, png: &[u8]) -> u64 {
        let count = format!(
            "(async () => {{
                const bytes = Uint8Array.from(atob('{}'), c => c.charCodeAt(0));
                const image = await createImageBitmap(new Blob([bytes], {{ type: 'image/png' }}));
                const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
                canvas.drawImage(image, 0, 0);
                const {{ data }} = canvas.getImageData(0, 0, image.width, image.height);
                const colours = new Set();
                for (let i = 0; i < data.length; i += 4) colours.add((data[i] >> 4) << 8 | (data[i + 1] >> 4) << 4 | data[i + 2] >> 4);
                return colours.size;
            }})()",
            STANDARD.encode(png)
        );
        self.eval(&count).await.as_u64().unwrap()
    }
}

/// A window and what its system prefers.
#[derive(Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: u32,
    /// `light` or `dark`.
    pub(crate) scheme: &'static str,
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium writes into its profile until it ends. What is left of it is below the folder for temporary files.
        let _ = self.child.start_kill();
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
