-- The time is the server's, read once per call, so that a caller's clock has no influence on a charge.
local algorithms = {}
local EXPIRY = nil
local function instant()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
