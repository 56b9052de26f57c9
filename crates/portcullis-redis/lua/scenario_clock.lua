-- The caller provides the time as the second argument, and keys outlive every scenario. For tests only, not for production.
local EXPIRY = '600000'
local now = ARGV[2] and #ARGV[2] == 8 and struct.unpack('<d', ARGV[2]) or -1
if not (now >= 0 and now < 9007199254740992 and now % 1 == 0) then return redis.error_reply('PORTCULLIS bad instant') end
