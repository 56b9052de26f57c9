-- Reads the record of an override, and replaces it if it is still the one that the caller has read.
--
-- KEYS[1]: the record. ARGV[1]: the expiry in milliseconds or 0 to read only, and the length of the expected record, each a
-- little-endian double; the expected record; and the new one. An empty record is none.
--
-- Reply: the instant, and 1 if the record was replaced or else 0, each such a double; and the record that was found.
local request = ARGV[1] or ''
if #request < 16 then return redis.error_reply('PORTCULLIS bad length') end
local expiry, length = struct.unpack('<dd', request)
if not (expiry >= 0 and expiry < 9007199254740992 and expiry % 1 == 0 and length >= 0 and length <= #request - 16
  and length % 1 == 0) then
  return redis.error_reply('PORTCULLIS bad number')
end
local found = redis.pcall('GET', KEYS[1]) or ''
if type(found) == 'table' then
  if not string.find(found.err, 'WRONGTYPE', 1, true) then return found end
  found = ''
end
local replaced = 0
if expiry > 0 and found == string.sub(request, 17, 16 + length) then
  -- On some systems `%d` has 32 bits.
  local milliseconds = expiry > 1 and EXPIRY or string.format(expiry < 2147483648 and '%d' or '%.0f', expiry)
  local answer = redis.pcall('SET', KEYS[1], string.sub(request, 17 + length), 'PX', milliseconds)
  if answer.err then return answer end
  replaced = 1
end
return struct.pack('<dd', now, replaced) .. found
