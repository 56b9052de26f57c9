-- Makes one or several decisions over KEYS at one instant, then writes: no key is written before all decisions are made.
-- Each decision charges all of its keys or none, and sees the charges of the decisions before it. Each key is read once and
-- written at most once.
--
-- The steps in Lua cost more time than the commands. So there are no closures per decision and no tables per key, numbers are
-- sent and stored in binary, and the parameters of a policy are sent once for all checks that share them.
--
-- ARGV[1]: a byte each for the operation, the number of checks and the number of records; for each check a byte for its
-- record, counted from 0, plus 128 if it is the last check of its decision, and a byte for its key, counted from 1; then the
-- records. A record is a byte for the algorithm and six parameters, the cost among them: little-endian doubles that are
-- integers below 2^53, the first not 0, unused ones 0. If the operation is sent plus 128, three parameters more follow in each
-- record, which only some rate-based algorithms use. A refund has one check, and after its record the runs to free, the
-- newest first, each four such doubles. `REFUND_NEWEST` frees a run only if no later charge follows it. `RENEW` has the
-- runs of each check, in their order. If `CHECK` is sent plus 64, a byte for each check follows the checks: how often its decision is
-- made, one after another. More than once is for decisions with one check, by the algorithms whose decisions take few numbers.
--
-- Reply: such doubles: the instant, then for every check twice the expiry in milliseconds that is set, or 0, plus 1 if its
-- cost fits, and its state after the decision; for a forced charge and for a decision that is made several times also the state
-- before it. Of such decisions the first ones fit and the others do not: the reply is that to the last.
--
-- The files of the algorithms replace the line of capitals. Each decides one check: from the stored value `raw`, the
-- operation and the parameters `p1` to `p9` it sets `fits`; the state in the reply, in `fields` or in `a` and `b`, and with
-- `FORCE` or if the decision is made several `times` that before the charge in `before`; and if the state has to be written,
-- `value` and `expires`, the instant from which it equals no state. A `value` of '' is no state. Without `fits`, and once the
-- decision is `denied`, nothing is charged. The file of the decision that most calls make replaces the first line of capitals.

local byte, pack, read, command = string.byte, struct.pack, struct.unpack, redis.pcall
local request = ARGV[1] or ''
-- SINGLE METER
local CHECK, REFUND, REFUND_NEWEST, FORCE, RESET, RENEW = 1, 2, 3, 4, 5, 6
local METER, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_LOG, CALENDAR_WINDOW, IN_FLIGHT = 1, 2, 3, 4, 5, 6
local OVERRIDE = 7
local REPEATED = CHECK + 64
local EXACT = 9007199254740992
local HEAD, RECORD, LONG_RECORD, RUN, MOST_RUNS, MOST_RENEWED = 3, 49, 73, 32, 64, 128
-- A function returns a limited number of results.
local MOST_PACKED = 1000
-- A value that no algorithm accepts.
local BROKEN = '?'

local operation, count, records = byte(request, 1, HEAD)
local record_length, first_record = RECORD, HEAD + 2 * (count or 0) + 1
-- The position before the numbers of repetitions, if there are any.
local repeats
if operation and operation > RENEW then
  if operation >= 128 then operation, record_length = operation - 128, LONG_RECORD end
  if operation == REPEATED and count then operation, repeats, first_record = CHECK, first_record - 1, first_record + count end
end
if not records or operation == 0 or operation > RENEW or count == 0 then
  return redis.error_reply('PORTCULLIS bad operation')
end
local first_run = first_record + record_length * records
local runs = (#request + 1 - first_run) / RUN
local refunds = operation == REFUND or operation == REFUND_NEWEST
if operation == RENEW and runs < count or runs ~= 0 and not (runs > 0 and runs % 1 == 0
  and (refunds and count == 1 and runs <= MOST_RUNS or operation == RENEW and runs <= MOST_RENEWED)) then
  return redis.error_reply('PORTCULLIS bad length')
end

for position = first_run, #request, RUN do
  local r1, r2, r3, r4 = read('<dddd', request, position)
  if not (r1 >= 0 and r1 < EXACT and r1 % 1 == 0 and r2 >= 0 and r2 < EXACT and r2 % 1 == 0
    and r3 >= 0 and r3 < EXACT and r3 % 1 == 0 and r4 >= 0 and r4 < EXACT and r4 % 1 == 0) then
    return redis.error_reply('PORTCULLIS bad run')
  end
end

-- By key: the stored value, or that to write; and if it is to be written, its expiry in milliseconds.
local values, expiries = { found }, nil
-- The reply, except to a single check with two numbers.
local reply, length, status, a, b = nil, 1, nil, nil, nil
-- The first check of the decision, the length of the reply before it, and what its charges have replaced.
local index, first, mark, undo, undone, denied = 0, 1, 1, nil, 0, false
local record, algorithm, p1, p2, p3, p4, p5, p6
local p7, p8, p9 = 0, 0, 0
-- What the overrides of a decision's keys change: whether nothing is written, the keys that are not, and whether to begin again.
local stale, kept, again = false, nil, false
local decide_log
-- The first run of the next check that is renewed.
local next_run = first_run
-- How often the decision is made, and how many states are in the reply to a check.
local times, states = 1, operation == FORCE and 2 or 1
-- How many of these `times` a cost fits into what is left.
local fitting_times = repeats and function(left, cost)
  left = math.max(left, 0)
  return math.min(times, (left - left % cost) / cost)
end

while index < count do
  index = index + 1
  local kind, key = byte(request, HEAD + 2 * index - 1, HEAD + 2 * index)
  local is_last = kind >= 128
  if is_last then kind = kind - 128 end
  if kind ~= record then
    if kind >= records then return redis.error_reply('PORTCULLIS bad record') end
    record = kind
    algorithm, p1, p2, p3, p4, p5, p6 = read('<Bdddddd', request, first_record + record_length * kind)
    if algorithm == 0 or algorithm > OVERRIDE or operation == RENEW and algorithm ~= IN_FLIGHT or not (p1 > 0 and p1 < EXACT and p1 % 1 == 0
      and p2 >= 0 and p2 < EXACT and p2 % 1 == 0
      and p3 >= 0 and p3 < EXACT and p3 % 1 == 0 and p4 >= 0 and p4 < EXACT and p4 % 1 == 0
      and p5 >= 0 and p5 < EXACT and p5 % 1 == 0 and p6 >= 0 and p6 < EXACT and p6 % 1 == 0) then
      return redis.error_reply('PORTCULLIS bad number')
    end
    if record_length > RECORD then
      p7, p8, p9 = read('<ddd', request, first_record + record_length * kind + RECORD)
      if not (p7 >= 0 and p7 < EXACT and p7 % 1 == 0 and p8 >= 0 and p8 < EXACT and p8 % 1 == 0
        and p9 >= 0 and p9 < EXACT and p9 % 1 == 0) then
        return redis.error_reply('PORTCULLIS bad number')
      end
    end
  end
  if repeats then
    times = byte(request, repeats + index)
    if times ~= 1 and (times == 0 or not is_last or index > first or algorithm == SLIDING_LOG or algorithm >= IN_FLIGHT) then
      return redis.error_reply('PORTCULLIS bad repetition')
    end
    states = times > 1 and 2 or 1
  end
  local name, raw = KEYS[key], values[key]
  if not name then return redis.error_reply('PORTCULLIS bad key') end
  if decide_log and type(raw) == 'table' then return redis.error_reply('PORTCULLIS charged log') end
  if raw == nil and algorithm ~= SLIDING_LOG then
    raw = command('GET', name)
    if type(raw) == 'table' then
      if not string.find(raw.err, 'WRONGTYPE', 1, true) then return raw end
      raw = BROKEN
    end
    values[key] = raw
  end
  local fits, value, expires, fields, before = true, nil, nil, nil, nil
  a, b = 0, 0
  -- ALGORITHMS
  if again or (not fits and not denied and index > first) then
    -- What the decision has charged is taken back, and its checks are repeated without charges.
    for entry = undone - 2, 1, -3 do
      local former = undo[entry]
      values[former], expiries[former] = undo[entry + 1], undo[entry + 2]
    end
    index, length, undone, denied, again = first - 1, mark, 0, true, false
  else
    denied = denied or not fits
    status = fits and 1 or 0
    if value and (algorithm == OVERRIDE or not stale and not (kept and kept[key])) then
      expiries = expiries or { nil }
      if not is_last or index > first then
        undo = undo or {}
        undo[undone + 1], undo[undone + 2], undo[undone + 3] = key, raw, expiries[key]
        undone = undone + 3
      end
      local expiry = 1
      if expires then
        expiry = expires - now + 1999
        expiry = (expiry - expiry % 1000) / 1000
      end
      values[key], expiries[key] = value, expiry
      status = status + 2 * expiry
    end
    if fields then
      reply = reply or { now }
      reply[length + 1] = status
      for field = 1, #fields do reply[length + 1 + field] = fields[field] end
      length = length + 1 + #fields
    elseif count > 1 or states == 2 then
      reply = reply or { now }
      reply[length + 1], reply[length + 2], reply[length + 3] = status, a, b
      length = length + 3
    end
    if states == 2 then
      for field = 1, #before do reply[length + field] = before[field] end
      length = length + #before
    end
    if is_last then
      first, mark, undone, denied = index + 1, length, 0, false
      stale, kept = false, nil
    end
  end
end

if expiries then
  local changed = 0
  for key = 1, #KEYS do
    local expiry = expiries[key]
    if expiry then
      changed = changed + 1
      -- On some systems `%d` has 32 bits.
      expiries[key] = expiry > 1 and EXPIRY or string.format(expiry < 2147483648 and '%d' or '%.0f', expiry)
    end
  end
  -- The user may lack a permission, and then nothing may be charged. With several writes, those that need commands of their own
  -- are first tried without a change (`prove`), one `SET` proves the others, and only then the first are made.
  for key = 1, decide_log and changed > 1 and #KEYS or 0 do
    local prove = expiries[key] and type(values[key]) == 'table' and values[key].prove
    local failure = prove and prove(expiries[key])
    if failure then return failure end
  end
  for key = 1, #KEYS do
    if expiries[key] then
      local log, failure = decide_log and type(values[key]) == 'table' and values[key], nil
      if not log then
        local answer = command('SET', KEYS[key], values[key], 'PX', expiries[key])
        failure = answer.err and answer
      elseif not log.prove then
        failure = log.write(expiries[key])
      end
      if failure then return failure end
    end
  end
  for key = 1, decide_log and #KEYS or 0 do
    local log = expiries[key] and type(values[key]) == 'table' and values[key]
    local failure = log and log.prove and log.write(expiries[key])
    if failure then return failure end
  end
end

if not reply then return pack('<dddd', now, status, a, b) end
if length <= MOST_PACKED then return pack('<' .. string.rep('d', length), unpack(reply, 1, length)) end
local parts = {}
for from = 1, length, MOST_PACKED do
  local part = math.min(MOST_PACKED, length - from + 1)
  parts[#parts + 1] = pack('<' .. string.rep('d', part), unpack(reply, from, from + part - 1))
end
return table.concat(parts)
