-- The caller provides the time, and keys outlive every scenario. For tests only, not for production.
local algorithms = {}
local EXPIRY = 600000
local function instant(now) return now end
