//! A line of each product, in its default format.

use super::*;

/// The client, the instant in milliseconds, the request, the status, and the headers that are read.
type Read = (&'static str, u64, &'static str, u16, &'static [(&'static str, &'static str)]);

#[track_caller]
fn reads(log: &str, fields: &str, format: Option<&str>, (client, millis, request, status, headers): Read) {
    let format = format.map(|format| format.parse().unwrap());
    let mut reader = LogReader::new(log.as_bytes()).format(format).fields(fields.parse().unwrap());
    let line = reader.next().unwrap().cloned();
    let notes = reader.notes();
    let line = line.unwrap_or_else(|| panic!("{:?}", notes.examples));
    assert_eq!(notes.bad, 0, "{:?}", notes.examples);
    assert_eq!((&*line.peer.to_string(), line.micros), (client, millis * 1_000), "{log}");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let read = format!("{} {}", text(line.method()), text(line.target()));
    assert_eq!((&*read, line.status), (request, status), "{log}");
    let read: Vec<_> = line.headers().map(|(name, value)| (name.to_string(), text(value))).collect();
    let expected: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(read, expected, "{log}");
}

/// 2000-10-10T20:55:36Z.
const NOW: u64 = 971_211_336_000;
const CURL: (&str, &str) = ("user-agent", "curl/8.5.0");

#[test]
fn text_formats_are_found_by_themselves() {
    let time = "[10/Oct/2000:13:55:36 -0700]";
    let combined = format!(r#"192.0.2.1 - - {time} "GET /a?b=c HTTP/1.1" 404 17 "-" "curl/8.5.0""#);
    let get = |headers| -> Read { ("192.0.2.1", NOW, "GET /a?b=c", 404, headers) };
    let cases: [(String, Read); 17] = [
        (combined.clone(), get(&[CURL])),
        (format!("\u{feff}{combined}"), get(&[CURL])),
        (combined.replace("192.0.2.1", "::ffff:192.0.2.1"), get(&[CURL])),
        (combined.replace("- -", "- [frank] [x [y"), get(&[CURL])),
        (combined.replace("- -", "-  "), get(&[CURL])),
        (combined.replace("404 17 \"-\"", " \"\""), ("192.0.2.1", NOW, "GET /a?b=c", 200, &[CURL])),
        (format!("www.example.com:443 {combined}"), get(&[("host", "www.example.com"), CURL])),
        (format!("www.example.com {combined}"), get(&[("host", "www.example.com"), CURL])),
        // nginx `main`.
        (format!(r#"{combined} "203.0.113.7, 10.0.0.2""#), get(&[CURL, ("x-forwarded-for", "203.0.113.7, 10.0.0.2")])),
        (format!(r#"{combined} "-""#), get(&[CURL])),
        // Traefik.
        (format!(r#"{combined} 7 "web@docker" "http://10.0.0.5:80" 12ms"#), get(&[CURL])),
        // Envoy.
        (
            r#"[2000-10-10T20:55:36.250Z] "POST /api/v1?x=1 HTTP/2" 204 - 154 0 226 100 "10.0.35.28, 192.0.2.1" "curl/8.5.0" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80""#.to_owned(),
            (
                "192.0.2.1",
                NOW + 250,
                "POST /api/v1?x=1",
                204,
                &[("x-forwarded-for", "10.0.35.28, 192.0.2.1"), CURL, ("host", "locations")],
            ),
        ),
        // Istio.
        (
            r#"[2000-10-10T20:55:36.250Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/8.5.0" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default"#.to_owned(),
            ("10.44.1.23", NOW + 250, "GET /status/418", 418, &[CURL, ("host", "httpbin:8000")]),
        ),
        // HAProxy, by syslog and without.
        (
            r#"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [10/Oct/2000:20:55:36.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1""#.to_owned(),
            ("10.0.1.2", NOW + 655, "GET /index.html", 200, &[]),
        ),
        (
            r#"2001:db8::1:443 [10/Oct/2000:20:55:36.655] http-in static/srv1 10/0/-1/-1/109 503 2750 - - SC-- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#.to_owned(),
            ("2001:db8::1", NOW + 655, "GET /", 503, &[]),
        ),
        // An application load balancer, and a classic one.
        (
            r#"https 2000-10-10T20:55:36.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/ HTTP/1.1" "curl/8.5.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/1234" 1 2000-10-10T20:55:36.000000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#.to_owned(),
            ("192.168.131.39", NOW + 186, "GET https://www.example.com:443/", 200, &[CURL]),
        ),
        (
            r#"2000-10-10T20:55:36.000000Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/8.5.0" - -"#.to_owned(),
            ("192.168.131.39", NOW, "GET http://www.example.com:80/", 200, &[CURL]),
        ),
    ];
    for (log, expected) in cases {
        // Microseconds beyond are not in the table.
        reads(&log.replace(".186641Z", ".186Z"), "", None, expected);
    }
}

#[test]
fn columns_of_the_w3c_format_are_named_by_their_line() {
    // IIS.
    let iis = "#Software: Microsoft Internet Information Services 10.0\r\n#Version: 1.0\r\n#Date: 2000-10-10 20:55:00\r\n\
        #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r\n\
        2000-10-10 20:55:36 10.0.0.1 GET /a b=c 443 - 192.0.2.1 Mozilla/5.0+(X11) - 404 0 2 15\r\n";
    let expected = ("192.0.2.1", NOW, "GET /a?b=c", 404, &[("user-agent", "Mozilla/5.0 (X11)")][..]);
    reads(iis, "", None, expected);
    reads(&format!("\u{feff}{iis}"), "", Some("iis"), expected);
    // CloudFront.
    let cloudfront = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for\n\
        2000-10-10\t20:55:36\tLAX1\t2390282\t2001:db8::7\tGET\td111111abcdef8.cloudfront.net\t/view/my/file.html\t200\twww.displaymyfiles.com\tMozilla/4.0%20(compatible)\t-\tzip=98101\tRefreshHit\tMRVMF7KydIvxMWfJIglgwHQwZsbG2IhRJ07sn9AkKUFSHS9EXAMPLE==\twww.example.com\thttps\t-\t0.001\t-\n";
    let headers: &[_] = &[
        ("referer", "www.displaymyfiles.com"),
        ("user-agent", "Mozilla/4.0 (compatible)"),
        ("cookie", "zip=98101"),
        ("host", "www.example.com"),
    ];
    reads(cloudfront, "", None, ("2001:db8::7", NOW, "GET /view/my/file.html", 200, headers));
    let cut = iis.lines().last().unwrap();
    let (_, notes) = lines(cut, Fields::default());
    assert_eq!(notes.examples[0].reason, BadLine::NoColumns);
}

#[test]
fn objects_of_known_products_need_no_fields() {
    for (log, expected) in [
        // Caddy.
        (
            r#"{"level":"info","ts":971211336.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"41342","client_ip":"198.51.100.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a","headers":{"User-Agent":["curl/8.5.0"],"X-Api-Key":["k"],"Authorization":["REDACTED"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":404,"resp_headers":{"Server":["Caddy"]}}"#,
            ("192.0.2.1", NOW + 250, "GET /a", 404, &[("host", "localhost"), CURL, ("x-api-key", "k")][..]),
        ),
        // Cloudflare, with a time in nanoseconds.
        (
            r#"{"ClientIP":"192.0.2.1","ClientRequestHost":"www.example.com","ClientRequestMethod":"GET","ClientRequestURI":"/a?b=c","EdgeEndTimestamp":971211337000000000,"EdgeResponseBytes":42,"EdgeResponseStatus":200,"EdgeStartTimestamp":971211336000000000,"RayID":"3a6050bcbe121a87"}"#,
            ("192.0.2.1", NOW, "GET /a?b=c", 200, &[("host", "www.example.com")]),
        ),
        // Traefik.
        (
            r#"{"ClientAddr":"192.0.2.1:3333","ClientHost":"192.0.2.1","ClientPort":"3333","DownstreamStatus":502,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/a?b=c","StartUTC":"2000-10-10T20:55:36.25Z","level":"info","request_User-Agent":"curl/8.5.0","time":"2000-10-10T20:55:39Z"}"#,
            ("192.0.2.1", NOW + 250, "GET /a?b=c", 502, &[("host", "a.example"), CURL]),
        ),
        // Envoy Gateway and Istio.
        (
            r#"{"start_time":"2000-10-10T20:55:36.250Z","method":"GET","x-envoy-origin-path":"/a","protocol":"HTTP/1.1","response_code":200,"x-forwarded-for":"192.0.2.9","user-agent":"curl/8.5.0",":authority":"a.example","downstream_remote_address":"192.0.2.1:60000"}"#,
            (
                "192.0.2.1",
                NOW + 250,
                "GET /a",
                200,
                &[("x-forwarded-for", "192.0.2.9"), CURL, ("host", "a.example")],
            ),
        ),
        (
            r#"{"authority":null,"method":"GET","path":"/a","response_code":0,"start_time":"2000-10-10T20:55:36Z","x_forwarded_for":"203.0.113.9,192.0.2.1"}"#,
            ("192.0.2.1", NOW, "GET /a", 200, &[("x-forwarded-for", "203.0.113.9,192.0.2.1")]),
        ),
        // CloudFront's JSON.
        (
            r#"{"date":"2000-10-10","time":"20:55:36","c-ip":"192.0.2.1","cs-method":"GET","cs-uri-stem":"/a","cs-uri-query":"b=c","sc-status":"404"}"#,
            ("192.0.2.1", NOW, "GET /a?b=c", 404, &[]),
        ),
        // nginx with variables that have no value.
        (
            r#"{"time_iso8601":"2000-10-10T20:55:36+00:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":404,"upstream_status":,"upstream_response_time":-}"#,
            ("192.0.2.1", NOW, "GET /a", 404, &[]),
        ),
    ] {
        reads(log, "", None, expected);
    }
}

#[test]
fn what_runtimes_put_around_a_line_is_removed() {
    let line = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.1" 404 17"#;
    let expected = ("192.0.2.1", NOW, "GET /a", 404, &[][..]);
    let quoted = serde_json::to_string(&format!("{line}\n")).unwrap();
    for log in [
        format!("2000-10-10T20:55:37.669794202Z stdout F {line}"),
        format!("2000-10-10T20:55:37.669794202+02:00 stderr F {line}"),
        format!(
            "2000-10-10T20:55:37.6Z stdout P {}\n2000-10-10T20:55:37.7Z stdout F {}",
            &line[..30],
            &line[30..]
        ),
        format!(r#"{{"log":{quoted},"stream":"stdout","time":"2000-10-10T20:55:37.669794202Z"}}"#),
        format!(
            "{{\"log\":{},\"stream\":\"stdout\"}}\n{{\"log\":{},\"stream\":\"stdout\"}}",
            serde_json::to_string(&line[..50]).unwrap(),
            serde_json::to_string(&format!("{}\n", &line[50..])).unwrap(),
        ),
        format!("2000-10-10T20:55:37.669794202Z {line}"),
        format!("web-1  | {line}"),
        format!("web-1  | 2000-10-10T20:55:37.669794202Z {line}"),
        format!("[pod/web-7d4b/nginx] {line}"),
        format!("<190>Oct 10 13:55:36 web1 nginx: {line}"),
        format!("<190>1 2000-10-10T20:55:36.003Z web1 nginx 77 - [a@1 b=\"c\"] {line}"),
        format!("2000-10-10T20:55:36+00:00 web1 nginx[77]: {line}"),
    ] {
        reads(&format!("{log}\n{log}\n"), "", None, expected);
        reads(&log, "", Some("common"), expected);
    }
    // The end of a log that is still written.
    reads(&format!("2000-10-10T20:55:37.6Z stdout P {line}"), "", None, expected);
    let json = r#"{"ts":971211336,"ip":"192.0.2.1","method":"GET","path":"/a","status":404}"#;
    reads(&format!("2000-10-10T20:55:37.6Z stdout F {json}"), "", None, expected);
    // A field of the line itself.
    let own = r#"{"log":"x","ts":971211336,"ip":"192.0.2.1","method":"GET","path":"/a","status":404}"#;
    reads(own, "", None, expected);
}

#[test]
fn formats_are_read_as_nginx_writes_them() {
    let statement = r#"log_format edge escape=default '$time_iso8601 $remote_addr - $remote_user "$request_method '
        '$scheme://$host$request_uri" $status ${request_time} $http_x_api_key $cookie_sid "$http_user_agent"';"#;
    let log = r#"2000-10-10T20:55:36+00:00 192.0.2.1 - - "PUT https://a.example/x?y=z" 201 0.004 key-1 s1 "a \" b""#;
    let headers: &[_] =
        &[("host", "a.example"), ("x-api-key", "key-1"), ("cookie", "sid=s1"), ("user-agent", r#"a \" b"#)];
    reads(log, "", Some(statement), ("192.0.2.1", NOW, "PUT /x?y=z", 201, headers));
    let short =
        r"$remote_addr - $remote_user [$time_local] $uri$is_args$args $status $http_x_key $upstream_addr";
    for (log, headers) in [
        ("192.0.2.1 -  [10/Oct/2000:20:55:36 +0000] /a?b 404  ", &[][..]),
        (
            "192.0.2.1 - [ [b [10/Oct/2000:20:55:36 +0000] /a?b 404 k 10.0.0.1:80, 10.0.0.2:80",
            &[("x-key", "k")],
        ),
    ] {
        reads(log, "", Some(short), ("192.0.2.1", NOW, " /a?b", 404, headers));
    }
    for (format, reason) in [
        ("$request $status", "no variable for the time"),
        ("$remote_addr $msec", "no variable for the request"),
        ("$remote_addr $msec $request $", "no name follows a `$`"),
        ("$remote_addr$msec $request", "nothing separates `$msec`"),
        ("$remote_addr ${msec $request", "has no `}`"),
        ("log_format main '$remote_addr $msec $request", "has no end"),
        ("squid", "`haproxy`"),
    ] {
        let error = format.parse::<Format>().unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn advice_names_what_would_read_a_line() {
    let advice = |log: &str, format: Option<&str>| {
        let format = format.map(|format| format.parse().unwrap());
        let mut reader = LogReader::new(log.as_bytes()).format(format);
        assert_eq!(reader.next().unwrap(), None, "{log}");
        let skipped = reader.notes().examples[0].clone();
        let marked: String = skipped.excerpt.chars().skip(skipped.indent).take(3).collect();
        (skipped.column, marked, skipped.advice.unwrap_or_default())
    };
    let own = "at=10/Oct/2000";
    assert_eq!(advice(own, None), (15, String::new(), String::new()));
    let text = "2000-10-10T20:55:36Z|7|192.0.2.1|GET|/a|404";
    let (_, _, found) = advice(text, None);
    assert_eq!(
        found,
        "--format '$time_local|$skipped|$remote_addr|$request_method|$request_uri|$status' reads it"
    );
    let format = found.split('\'').nth(1).unwrap();
    reads(text, "", Some(format), ("192.0.2.1", NOW, "GET /a", 404, &[]));
    assert_eq!(advice(COMMON, Some("json")).2, "--format combined reads it");
    let common = format!("{{\"a\":1}}\n{COMMON}");
    assert_eq!(
        advice(&COMMON.replace("10/Oct", "10/Foo"), Some("common")),
        (20, "10/".to_owned(), String::new())
    );
    let (lines, notes) = lines(&common, Fields::default());
    assert_eq!((lines.len(), notes.bad), (1, 1));
    let json = r#"{"at":"2000-10-10T20:55:36Z","peer":{"addr":"192.0.2.1"},"target":"/a"}"#;
    let (_, _, found) = advice(json, None);
    assert_eq!(found, "--fields client=peer.addr,time=at,path=target reads it");
    reads(json, found.split(' ').nth(1).unwrap(), None, ("192.0.2.1", NOW, " /a", 200, &[]));
    let (column, marked, found) = advice(r#"{"ts":971211336,"who":"a host"}"#, None);
    assert_eq!((column, &*marked), (1, "{\"t"));
    assert_eq!(found, "name it with --fields client=NAME; the line has ts, who");
    assert_eq!(advice(r#"{"ts":971211336,"#, None).0, 16);
}

#[test]
fn text_in_utf_16_is_an_error() {
    let error = LogReader::new(&b"\xff\xfe1\x009\x00"[..]).next().unwrap_err();
    assert!(error.to_string().contains("iconv"), "{error}");
}
