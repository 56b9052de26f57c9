-- Counts per slot of a sliding window. Mirrors algorithm/sliding_window.rs of portcullis-core.
--
-- A state is the end of the newest charged slot, the width of a slot in microseconds and the number of slots in a period,
-- each a little-endian double, the number of bytes of a count, from 1 to 5, and the counts of that slot and of the slots
-- before it, without zeros at the end. The reply has the number of counts, and unless that is 0 the end and the counts.
-- Parameters: the width, the slots, the limit (or, for
-- a forced charge, the most units of a window), and the cost. A run to refund is its units and the start of its slot.
if algorithm == SLIDING_WINDOW then
  local width, slots, limit, cost = p1, p2, p3, p4
  -- These bounds limit the loops over all slots and the counts of a valid state.
  local bound = operation == FORCE and 8589934592 or 4294967296
  if slots == 0 or slots > 1000 or limit >= bound then return redis.error_reply('PORTCULLIS bad window') end

  -- Returns the share of the oldest slot's count for the part `inside` the period, rounded down. For counts below 2^34 and
  -- times up to 2^51: a double holds these, but not all products, which are compared in two parts instead.
  local function share(count, inside)
    local product = count * inside
    if product < EXACT then return (product - product % width) / width end
    local function parts(x, y)
      local x_low, y_low = x % 2097152, y % 2097152
      local x_high, y_high = (x - x_low) / 2097152, (y - y_low) / 2097152
      local middle = x_high * y_low + x_low * y_high
      local low = x_low * y_low + middle % 2097152 * 2097152
      local high = x_high * y_high + (middle - middle % 2097152) / 2097152
      return high + (low - low % 4398046511104) / 4398046511104, low % 4398046511104
    end
    local exact_high, exact_low = parts(count, inside)
    local function exceeds(guess)
      local high, low = parts(guess, width)
      return high > exact_high or (high == exact_high and low > exact_low)
    end
    local guess = math.floor(count * (inside / width))
    while exceeds(guess) do guess = guess - 1 end
    while not exceeds(guess + 1) do guess = guess + 1 end
    return guess
  end

  local counts, size, is_broken = nil, 0, false
  local at, back, is_moved = now, 0, false
  if raw and raw ~= '' then
    local finish, span, places = -1, 0, 0
    local bytes = byte(raw, 25) or 0
    size = (#raw - 25) / bytes
    if size >= 1 and size <= 1001 and size % 1 == 0 and bytes <= 5 then finish, span, places = read('<ddd', raw) end
    if span > 0 and span % 1 == 0 and finish >= span and finish < EXACT and finish % span == 0
      and places >= size - 1 and places < EXACT and places % 1 == 0 then
      counts = { read('<' .. string.rep('I' .. bytes, size), raw, 26) }
      -- The position after the last count.
      counts[size + 1] = nil
      for slot = 1, size do is_broken = is_broken or counts[slot] >= 17179869184 end
    else
      is_broken = true
    end
    if is_broken or span ~= width or places ~= slots then
      counts = nil
    else
      local begins = finish - width
      -- Time stands still until a slot that has not begun; a slot that is farther ahead moves to now with all counts.
      is_moved = begins - now > width * slots
      if not is_moved then
        at = math.max(now, begins)
        back = (at - at % width - begins) / width
      end
    end
  end
  local ends = at - at % width + width

  -- The counts at now: zeros for the slots since the newest charge, then the stored counts.
  if not counts or back > slots then
    counts = {}
  elseif back > 0 then
    size = math.min(size, slots + 1 - back)
    for slot = size, 1, -1 do counts[slot + back] = counts[slot] end
    for slot = 1, back do counts[slot] = 0 end
  end
  local inside, oldest, used = ends - at, counts[slots + 1] or 0, 0
  for slot = 1, math.min(#counts, slots) do used = used + counts[slot] end
  if oldest > 0 then used = used + share(oldest, inside) end
  -- Without counts there is no state that could move or hold the time.
  if used == 0 then counts, ends, is_moved = {}, now - now % width + width, false end
  local is_changed = is_broken or is_moved

  size = used > 0 and #counts or 0
  while size > 0 and counts[size] == 0 do size = size - 1 end
  if operation == FORCE or times > 1 then before = size > 0 and { size, ends, unpack(counts, 1, size) } or { 0 } end
  if times > 1 then
    if cost > 0 then
      local fitting = fitting_times(limit - used, cost)
      fits = fitting == times
      if fitting > 0 then counts[1], used, is_changed = (counts[1] or 0) + fitting * cost, used + fitting * cost, true end
    end
  elseif operation == CHECK then
    if cost > 0 then
      fits = used + cost <= limit
      if fits and not denied then counts[1], used, is_changed = (counts[1] or 0) + cost, used + cost, true end
    end
  elseif operation == FORCE then
    local charged = math.min(cost, math.max(limit - used, 0))
    if charged > 0 then counts[1], used, is_changed = (counts[1] or 0) + charged, used + charged, true end
  elseif operation == RESET then
    used, is_changed = 0, true
  elseif used > 0 then
    for position = first_run, #request, RUN do
      local units, _, begins = read('<ddd', request, position)
      local slot = (ends - begins + begins % width) / width
      local count = slot > 0 and counts[slot] or 0
      local left = math.max(count - units, 0)
      if left < count then
        counts[slot], is_changed = left, true
        if slot > slots then count, left = share(count, inside), share(left, inside) end
        used = used - count + left
      end
    end
  end

  size = used > 0 and #counts or 0
  while size > 0 and counts[size] == 0 do size = size - 1 end
  fields = size > 0 and { size, ends, unpack(counts, 1, size) } or { 0 }
  if is_changed then
    if size > 0 then
      local newest, most, bytes = 1, 0, 1
      while counts[newest] == 0 do newest = newest + 1 end
      for slot = newest, size do
        if counts[slot] > most then most = counts[slot] end
      end
      while most >= 256 do most, bytes = most / 256, bytes + 1 end
      value = pack('<dddB' .. string.rep('I' .. bytes, size), ends, width, slots, bytes, unpack(counts, 1, size))
      local last = counts[newest]
      -- Once the slot of the newest count is the oldest, this is the part inside at which its share rounds down to 0.
      local nothing = (width + (last - width % last) % last) / last
      expires = ends + (slots + 1 - newest) * width - nothing + 1
    else
      value = ''
    end
  end
end
