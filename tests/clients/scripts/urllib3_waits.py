"""Sends two requests; the second is rejected once, and urllib3 waits for the time in Retry-After."""

import sys

import urllib3

retries = urllib3.Retry(total=3, backoff_factor=0, respect_retry_after_header=True)
http = urllib3.PoolManager(retries=retries)
for _ in range(2):
    answer = http.request("GET", sys.argv[1])
    refused = [attempt.status for attempt in answer.retries.history]
    print(answer.status, refused)
