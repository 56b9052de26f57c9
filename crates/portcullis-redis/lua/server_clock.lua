-- Time is the server's, read once per call. A script must not be charged by the clock of whoever sends it.
local algorithms = {}
local EXPIRY = nil
local function instant()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
