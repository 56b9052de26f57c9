-- Asks the check endpoint before each request: `http-request lua.check`. Sets variables of the transaction: check_status, and what the
-- client is to see of the answer. Without an answer of the endpoint, check_status is not set.

local CHECKS = "http://127.0.0.1:8079/check/haproxy" -- the frontend `checks`
local TIMEOUT = 3000 -- milliseconds; longer than those of the backend `portcullis` together, which end a check

-- Of the request's headers. Beyond that, a check would not fit into HAProxy's buffers, and seem not to be answered.
local MAX_LINES = 80
local MAX_BYTES = 8192

local SHOWN = {
    ["x-ratelimit-limit"] = "txn.check_limit",
    ["x-ratelimit-remaining"] = "txn.check_remaining",
    ["x-ratelimit-reset"] = "txn.check_reset",
    ["retry-after"] = "txn.check_retry_after",
    ["www-authenticate"] = "txn.check_authenticate",
}

-- Of the connection, and what this script sets itself.
local NOT_FORWARDED = {
    ["connection"] = true,
    ["content-length"] = true,
    ["expect"] = true,
    ["host"] = true,
    ["keep-alive"] = true,
    ["proxy-connection"] = true,
    ["te"] = true,
    ["trailer"] = true,
    ["transfer-encoding"] = true,
    ["upgrade"] = true,
    ["x-original-address"] = true,
    ["x-original-host"] = true,
    ["x-original-method"] = true,
    ["x-original-uri"] = true,
}

local function check(txn)
    local headers = {}
    local uri = txn.sf:pathq()
    local count, bytes = 0, #uri
    for name, values in pairs(txn.http:req_get_headers()) do
        if not NOT_FORWARDED[name] then
            local lines = {}
            for index = 0, #values do
                lines[index + 1] = values[index]
                count, bytes = count + 1, bytes + #name + #values[index]
            end
            headers[name] = lines
        end
    end
    if count > MAX_LINES or bytes > MAX_BYTES then
        txn:set_var("txn.check_status", 431)
        return
    end
    headers["x-original-method"] = { txn.sf:method() }
    headers["x-original-uri"] = { uri }
    headers["x-original-host"] = { txn.sf:req_fhdr("host") }
    headers["x-original-address"] = { txn.sf:src() }

    local response = core.httpclient():get({ url = CHECKS, headers = headers, timeout = TIMEOUT })
    -- The errors of the backend, 502 to 504, do not have the header.
    if not response or not response.headers then
        return
    end
    if response.status >= 500 and not response.headers["x-check-answered"] then
        return
    end
    txn:set_var("txn.check_status", response.status)
    for name, variable in pairs(SHOWN) do
        local values = response.headers[name]
        if values then
            txn:set_var(variable, values[0])
        end
    end
end

core.register_action("check", { "http-req" }, check)
