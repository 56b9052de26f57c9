"""Uploads more than a limited server permits, with the client of the standard library. Prints what it is told each time."""

import sys
import urllib.error
import urllib.request

url, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(times):
    try:
        urllib.request.urlopen(url, data=bytes(size))
    except urllib.error.HTTPError as answer:
        print(answer.status, answer.headers["retry-after"])
