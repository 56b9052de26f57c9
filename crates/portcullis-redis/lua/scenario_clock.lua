-- Time is what the caller says, and keys outlive every scenario: for tests only, never for a server in service.
local algorithms = {}
local EXPIRY = 600000
local function instant(now) return now end
