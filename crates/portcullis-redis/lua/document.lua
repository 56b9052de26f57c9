-- Replaces the document KEYS[1] with ARGV[2] if it begins with ARGV[1] or, where that is empty, if there is none.
-- Returns whether it was replaced: 1 or 0.
local now = redis.call('GET', KEYS[1]) or ''
local expected = ARGV[1]
if string.sub(now, 1, #expected) ~= expected or (expected == '' and now ~= '') then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
