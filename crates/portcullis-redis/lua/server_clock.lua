-- The time is the server's, read once per call, so that a caller's clock has no influence on a charge.
local EXPIRY = nil
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
