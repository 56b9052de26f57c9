-- Decides for all KEYS at one instant, then writes: no key is written before all are decided.
--
-- ARGV: the operation, the instant of a scenario or 0, then for every key the name of its algorithm, the number of
-- parameters, and the parameters. A parameter is an integer below 2^53, and the first is not 0. After the algorithm's
-- parameters a refund has the runs to free, the newest first. `refund_newest` frees a run only if no later charge follows it.
-- Reply, all integers: the instant, then for every key whether its cost fits, the expiry in milliseconds that was
-- set or 0, the number of fields of its state and the fields; for a forced charge also the state before it.
--
-- An algorithm has `param_count` parameters, which it may validate with `accepts`, and `run` numbers for each run. Its
-- state is stored as a string of `min_fields` to `max_fields` numbers, which it may validate with `is_valid`. An algorithm
-- with another format has a `read` function, and its states have a `write` function.

local EXACT = 9007199254740992
local LONGEST_NUMBER = 17
local MOST_RUNS = 64
local operations = { check = 'check', refund = 'refund', refund_newest = 'refund', force = 'force', reset = 'reset' }
-- Lua prints a number with 14 digits.
local PRINTED_EXACTLY = 100000000000000

local find, tonumber = string.find, tonumber

local function whole(text)
  local value = text and find(text, '^%d+$') and tonumber(text)
  return value and value < EXACT and value or nil
end

-- Returns the fields of a stored state, or true if the value is not a state of the algorithm.
local function parse(raw, algorithm)
  if #raw > algorithm.max_fields * LONGEST_NUMBER or find(raw, '[^%d ]') then return true end
  local state, count = {}, 0
  for word in string.gmatch(raw, '%d+') do
    local value = tonumber(word)
    if value >= EXACT then return true end
    count = count + 1
    state[count] = value
  end
  local valid = count >= algorithm.min_fields and count <= algorithm.max_fields
  if valid and algorithm.is_valid then valid = algorithm.is_valid(state) end
  return not valid or state
end

local function read(key, algorithm)
  if algorithm.read then return algorithm.read(key) end
  local raw = redis.pcall('GET', key)
  if type(raw) ~= 'table' then return raw and raw ~= '' and parse(raw, algorithm) or nil end
  if find(raw.err, 'WRONGTYPE', 1, true) then return true end
  return nil, raw
end

local function print_number(value) return string.format('%.0f', value) end

-- Returns the expiry in milliseconds, not before the instant at which the state equals no state, and the expiry to set.
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

local entries, fits_all, next_arg = {}, true, 3
for index, key in ipairs(KEYS) do
  local algorithm, count = algorithms[ARGV[next_arg]], whole(ARGV[next_arg + 1])
  local sent = algorithm and count
  if not sent or (sent ~= algorithm.param_count and not are_runs(algorithm, sent - algorithm.param_count)) then
    return redis.error_reply('PORTCULLIS bad arguments for key ' .. index)
  end
  local params = { unpack(ARGV, next_arg + 2, next_arg + 1 + count) }
  for offset = 1, count do
    params[offset] = whole(params[offset])
    if not params[offset] or params[1] == 0 then
      return redis.error_reply('PORTCULLIS bad number for key ' .. index)
    end
  end
  if algorithm.accepts and not algorithm.accepts(params) then
    return redis.error_reply('PORTCULLIS bad number for key ' .. index)
  end
  next_arg = next_arg + 2 + count

  local state, failure = read(key, algorithm)
  if failure then return failure end
  local broken = state == true
  local fits, before, after, moved = algorithm.decide(not broken and state or nil, now, operation, params, key, if_newest)
  fits_all = fits_all and fits
  entries[index] = { fits = fits, before = before, after = after, repaired = broken or moved }
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
for _, entry in ipairs(entries) do
  entry.state, entry.expiry = entry.before, 0
  if fits_all then entry.state = entry.after end
  entry.changed = entry.repaired or entry.state ~= entry.before
  if entry.changed then changed = changed + 1 end
end
local function is_ring(entry) return entry.state and entry.state.prove end
local function save_all(rings)
  for index, key in ipairs(KEYS) do
    local entry, failure = entries[index], nil
    if entry.changed and not is_ring(entry) == not rings then
      entry.expiry, failure = write(key, entry.state, now)
      if failure then return failure end
    end
  end
end
-- The user may lack a permission, and then nothing may be charged. With several writes, those that use commands of their own
-- are tried first without a change (`prove`), one `SET` proves the others, and only then the first are made.
if changed > 1 then
  for _, entry in ipairs(entries) do
    local _, set = expiry_of(entry.state, now)
    local failure = entry.changed and is_ring(entry) and entry.state.prove(set)
    if failure then return failure end
  end
end
local failure = save_all(false) or save_all(true)
if failure then return failure end
for _, entry in ipairs(entries) do
  append(entry.fits and 1 or 0)
  append(entry.expiry)
  append_state(entry.state)
  if operation == 'force' then append_state(entry.before) end
end
return reply
