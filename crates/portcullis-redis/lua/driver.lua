-- Decides for all KEYS at one instant, then writes: nothing is written before everything is decided.
--
-- ARGV: the operation, the instant of a scenario or 0, then for every key the name of its algorithm, how many
-- parameters follow, and the parameters, whole numbers below 2^53 of which the first is not 0. Behind those that the
-- algorithm takes a refund has the runs to free, the newest first; `refund_newest` frees a run only where no later charge
-- stands on it.
-- Reply, all integers: the instant, then for every key whether its cost fits, the expiry in milliseconds that was
-- set or 0, the number of fields of its state and the fields; for a forced charge also the state before it.
--
-- An algorithm `takes` so many parameters, which it may have to know, and so many numbers for each `run`, and decides by a
-- state. That is kept as a string of so many numbers, `fewest` to `most`, `sound` together; unless the algorithm brings a
-- `read` of its own, and its states a `write`.

local EXACT = 9007199254740992
local LONGEST_NUMBER = 17
local MOST_RUNS = 64
local operations = { check = 'check', refund = 'refund', refund_newest = 'refund', force = 'force', reset = 'reset' }
-- Lua prints 14 digits of a number.
local PRINTED_EXACTLY = 100000000000000

local find, tonumber = string.find, tonumber

local function whole(text)
  local value = text and find(text, '^%d+$') and tonumber(text)
  return value and value < EXACT and value or nil
end

-- The fields of a stored state; true instead for something that is none of ours.
local function parse(raw, algorithm)
  if #raw > algorithm.most * LONGEST_NUMBER or find(raw, '[^%d ]') then return true end
  local state, count = {}, 0
  for word in string.gmatch(raw, '%d+') do
    local value = tonumber(word)
    if value >= EXACT then return true end
    count = count + 1
    state[count] = value
  end
  local ours = count >= algorithm.fewest and count <= algorithm.most
  if ours and algorithm.sound then ours = algorithm.sound(state) end
  return not ours or state
end

local function read(key, algorithm)
  if algorithm.read then return algorithm.read(key) end
  local raw = redis.pcall('GET', key)
  if type(raw) ~= 'table' then return raw and raw ~= '' and parse(raw, algorithm) or nil end
  if find(raw.err, 'WRONGTYPE', 1, true) then return true end
  return nil, raw
end

local function print_number(value) return string.format('%.0f', value) end

-- The expiry in milliseconds, at least up to the instant at which the state counts as none; and that to set.
local function expiry_of(state, now)
  local expiry = state and math.ceil((state.expires - now) / 1000) + 1 or 1
  return expiry, print_number(state and EXPIRY or expiry)
end

-- Returns the expiry.
local function write(key, state, now)
  local fields, expiry, set = {}, expiry_of(state, now)
  if state and state.write then return expiry, state.write(set) end
  for index, value in ipairs(state or {}) do
    fields[index] = value < PRINTED_EXACTLY and value or print_number(value)
  end
  local reply = redis.pcall('SET', key, table.concat(fields, ' '), 'PX', set)
  return expiry, type(reply) == 'table' and reply.err and reply
end

local operation, now = operations[ARGV[1]], instant(whole(ARGV[2]))
if not (operation and now) then return redis.error_reply('PORTCULLIS bad operation or instant') end
local if_newest = ARGV[1] == 'refund_newest'

local function are_runs(algorithm, count)
  return operation == 'refund' and count > 0 and count % algorithm.run == 0 and count <= MOST_RUNS * algorithm.run
end

local places, fits_all, next_arg = {}, true, 3
for index, key in ipairs(KEYS) do
  local algorithm, count = algorithms[ARGV[next_arg]], whole(ARGV[next_arg + 1])
  local sent = algorithm and count
  if not sent or (sent ~= algorithm.takes and not are_runs(algorithm, sent - algorithm.takes)) then
    return redis.error_reply('PORTCULLIS bad arguments for key ' .. index)
  end
  local params = { unpack(ARGV, next_arg + 2, next_arg + 1 + count) }
  for offset = 1, count do
    params[offset] = whole(params[offset])
    if not params[offset] or params[1] == 0 then
      return redis.error_reply('PORTCULLIS bad number for key ' .. index)
    end
  end
  if algorithm.knows and not algorithm.knows(params) then
    return redis.error_reply('PORTCULLIS bad number for key ' .. index)
  end
  next_arg = next_arg + 2 + count

  local state, failure = read(key, algorithm)
  if failure then return failure end
  local broken = state == true
  local fits, before, after, moved = algorithm.decide(not broken and state or nil, now, operation, params, key, if_newest)
  fits_all = fits_all and fits
  places[index] = { fits = fits, before = before, after = after, repaired = broken or moved }
end

local reply, length = { now }, 1
local function append(value)
  length = length + 1
  reply[length] = value
end
local function append_state(state)
  append(state and #state or 0)
  for index = 1, state and #state or 0 do append(state[index]) end
end
local changed = 0
for _, place in ipairs(places) do
  place.state, place.expiry = place.before, 0
  if fits_all then place.state = place.after end
  place.changed = place.repaired or place.state ~= place.before
  if place.changed then changed = changed + 1 end
end
local function is_ring(place) return place.state and place.state.prove end
local function save_all(rings)
  for index, key in ipairs(KEYS) do
    local place, failure = places[index], nil
    if place.changed and not is_ring(place) == not rings then
      place.expiry, failure = write(key, place.state, now)
      if failure then return failure end
    end
  end
end
-- The user may lack a right, and then nothing may have been charged. So of several writes those that take commands of
-- their own are proven, one `SET` proves the others, and only then the first are made.
if changed > 1 then
  for _, place in ipairs(places) do
    local _, set = expiry_of(place.state, now)
    local failure = place.changed and is_ring(place) and place.state.prove(set)
    if failure then return failure end
  end
end
local failure = save_all(false) or save_all(true)
if failure then return failure end
for _, place in ipairs(places) do
  append(place.fits and 1 or 0)
  append(place.expiry)
  append_state(place.state)
  if operation == 'force' then append_state(place.before) end
end
return reply
