"""Calls twice with a retry policy that retries at once by default, and prints each result with the error details."""

import json
import sys

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

policy = {
    "maxAttempts": 3,
    "initialBackoff": "0.001s",
    "maxBackoff": "0.001s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
}
config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
channel = grpc.insecure_channel(sys.argv[1], options=[("grpc.service_config", config)])
check = channel.unary_unary("/grpc.health.v1.Health/Check")

for _ in range(2):
    try:
        check(b"", timeout=30)
        print("OK")
    except grpc.RpcError as error:
        print(error.code().name, error.details())
        for detail in rpc_status.from_call(error).details:
            for message in (error_details_pb2.RetryInfo(), error_details_pb2.QuotaFailure()):
                if detail.Unpack(message):
                    print(" ".join(str(message).split()))
