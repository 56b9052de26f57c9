-- A count per window. Mirrors algorithm/fixed_window.rs of portcullis-core.
--
-- A state is the end of the window and its length in microseconds, and the count. Parameters: the period, the phase
-- (equal to the period if each key has its own windows), the limit, and the cost. A run to refund is its units and the
-- start of its window.
algorithms.fixed_window = { param_count = 4, run = 2, min_fields = 3, max_fields = 3 }

function algorithms.fixed_window.decide(state, now, operation, params)
  local period, phase, limit, cost = unpack(params, 1, 4)

  local ends = now + period
  if phase < period then ends = ends - (ends - phase) % period end
  local function window(count)
    if count > 0 then return { ends, period, count, expires = ends } end
  end

  local count, moved = 0, false
  if state then
    local finish, length, held = unpack(state)
    local aligned = phase == period or finish % period == phase
    if length == period and aligned and held > 0 and finish > now then
      count = held
      -- Time stands still until a window that has not begun; a window that is farther ahead moves to now with its count.
      if finish - now > 2 * period then moved = true else ends = finish end
    end
  end

  local before = window(count)
  if operation == 'check' then
    if cost == 0 then return true, before, before, moved end
    if count + cost > limit then return false, before, before, moved end
    return true, before, window(count + cost), moved
  elseif operation == 'refund' then
    local left = count
    for index = 5, #params, 2 do
      local units, begins = params[index], params[index + 1]
      if begins >= ends - period and begins < ends then left = math.max(left - units, 0) end
    end
    if left == count then return true, before, before, moved end
    return true, before, window(left), moved
  elseif operation == 'force' then
    local charged = math.max(count, math.min(count + cost, 2 * limit))
    if charged == count then return true, before, before, moved end
    return true, before, window(charged), moved
  end
  return true, before, nil, true
end
