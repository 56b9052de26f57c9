-- Counts per slot of a sliding window. Mirrors algorithm/sliding_window.rs of portcullis-core.
--
-- A state is the end of the newest charged slot, the width of a slot in microseconds, the number of slots in a period, and
-- the counts of that slot and of the slots before it, without zeros at the end. Parameters: the width, the slots, the limit,
-- and the cost. A run to refund is its units and the start of its slot.
algorithms.sliding_window = { param_count = 4, run = 2, min_fields = 4, max_fields = 1004 }

-- Whether a * b > c * d, for a and c below 2^34, b and d up to 2^51: a double holds each part, but not the products.
local function exceeds(a, b, c, d)
  local function product(x, y)
    local x_low, y_low = x % 2097152, y % 2097152
    local x_high, y_high = (x - x_low) / 2097152, (y - y_low) / 2097152
    local middle = x_high * y_low + x_low * y_high
    local low = x_low * y_low + middle % 2097152 * 2097152
    local high = x_high * y_high + (middle - middle % 2097152) / 2097152
    return high + (low - low % 4398046511104) / 4398046511104, low % 4398046511104
  end
  local high, low = product(a, b)
  local other_high, other_low = product(c, d)
  return high > other_high or (high == other_high and low > other_low)
end

-- Returns the share of the oldest slot's count for the part `inside` the period, rounded down.
local function share(count, inside, width)
  local product = count * inside
  if product < 9007199254740992 then return (product - product % width) / width end
  local guess = math.floor(count * (inside / width))
  while exceeds(guess, width, count, inside) do guess = guess - 1 end
  while not exceeds(guess + 1, width, count, inside) do guess = guess + 1 end
  return guess
end

-- These bounds limit the loops over all slots and the counts of a valid state.
function algorithms.sliding_window.accepts(params)
  return params[2] > 0 and params[2] <= 1000 and params[3] < 4294967296
end

function algorithms.sliding_window.is_valid(state)
  local finish, width = state[1], state[2]
  if width == 0 or finish < width or finish % width > 0 or #state > state[3] + 4 then return false end
  for index = 4, #state do
    if state[index] >= 17179869184 then return false end
  end
  return true
end

function algorithms.sliding_window.decide(state, now, operation, params)
  local width, slots, limit, cost = unpack(params, 1, 4)
  local at, held, back, moved = now, 0, 0, false
  if state and state[2] == width and state[3] == slots then
    held = #state - 3
    local begins = state[1] - width
    -- Time stands still until a slot that has not begun; a slot that is farther ahead moves to now with all counts.
    moved = begins - now > width * slots
    if not moved then
      at = math.max(now, begins)
      back = (at - at % width - begins) / width
    end
  end
  local ends = at - at % width + width

  -- The counts at now: zeros for the slots since the newest charge, then the stored counts.
  local fields, used = { ends, width, slots }, 0
  for slot = 1, math.min(held + back, slots + 1) do
    local count = slot > back and state[slot - back + 3] or 0
    fields[slot + 3] = count
    if slot <= slots then used = used + count end
  end
  local inside = ends - at
  used = used + share(fields[slots + 4] or 0, inside, width)
  -- Without counts there is no state that could move or hold the time.
  if used == 0 then fields, moved = { now - now % width + width, width, slots }, false end

  local function window(counts)
    while counts[#counts] == 0 do counts[#counts] = nil end
    local newest = 4
    while counts[newest] == 0 do newest = newest + 1 end
    local last = counts[newest]
    -- Once the slot of the newest count is the oldest, this is the part inside at which its share rounds down to 0.
    local nothing = (width + (last - width % last) % last) / last
    counts.expires = counts[1] + (slots + 4 - newest) * width - nothing + 1
    return counts
  end
  local function with(slot, count)
    local changed = { unpack(fields) }
    changed[slot + 3] = count
    return window(changed)
  end

  local newest = fields[4] or 0
  local before = used > 0 and window(fields) or nil
  if operation == 'check' then
    if cost == 0 then return true, before, before, moved end
    if used + cost > limit then return false, before, before, moved end
    return true, before, with(1, newest + cost), moved
  elseif operation == 'refund' then
    local counts, rest, changed = { unpack(fields) }, used, false
    for index = 5, #params, 2 do
      local units, begins = params[index], params[index + 1]
      local slot = (ends - begins + begins % width) / width
      local count = slot > 0 and counts[slot + 3] or 0
      local left = math.max(count - units, 0)
      if slot > slots then
        rest = rest - share(count, inside, width) + share(left, inside, width)
      else
        rest = rest - count + left
      end
      if left < count then counts[slot + 3], changed = left, true end
    end
    if not before or not changed then return true, before, before, moved end
    return true, before, rest > 0 and window(counts) or nil, moved
  elseif operation == 'force' then
    local charged = math.min(cost, math.max(2 * limit - used, 0))
    if charged == 0 then return true, before, before, moved end
    return true, before, with(1, newest + charged), moved
  end
  return true, before, nil, true
end
