-- GCRA in floating point. ARGV: seconds per unit, burst, cost. Returns 1 or 0, the units that remain, and the seconds to wait.
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then
  tat = now
end
local after = tat + interval * cost
local room = burst * interval - (after - now)
if room < 0 then
  return {0, math.floor((burst * interval - (tat - now)) / interval), math.ceil(-room)}
end
redis.call('SET', KEYS[1], after, 'EX', math.ceil(after - now))
return {1, math.floor(room / interval), 0}
