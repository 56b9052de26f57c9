-- A count per window. Mirrors algorithm/fixed_window.rs of portcullis-core.
--
-- A state is the end of the window and its length in microseconds, and the count: three little-endian doubles. The reply has
-- the end and the count. Parameters: the period, the phase (equal to the period if each key has its own windows), the limit (or,
-- for a forced charge, the most units of a window), and the cost. A run to refund is its units and the start of its window.
if algorithm == FIXED_WINDOW then
  local period, phase, limit, cost = p1, p2, p3, p4
  local ends = now + period
  if phase < period then ends = ends - (ends - phase) % period end

  local held, is_changed = 0, false
  if raw and raw ~= '' then
    local finish, span, units = -1, 0, 0
    if #raw == 24 then finish, span, units = read('<ddd', raw) end
    if finish >= 0 and finish < EXACT and finish % 1 == 0 and span >= 0 and span < EXACT and span % 1 == 0
      and units >= 0 and units < EXACT and units % 1 == 0 then
      if span == period and units > 0 and finish > now and (phase == period or finish % period == phase) then
        held = units
        -- Time stands still until a window that has not begun; a window that is farther ahead moves to now with its count.
        if finish - now > 2 * period then is_changed = true else ends = finish end
      end
    else
      is_changed = true
    end
  end

  local left = held
  if times > 1 then
    before = held > 0 and { ends, held } or { 0, 0 }
    if cost > 0 then
      local fitting = fitting_times(limit - held, cost)
      fits, left = fitting == times, held + fitting * cost
    end
  elseif operation == CHECK then
    if cost > 0 then
      fits = held + cost <= limit
      if fits and not denied then left = held + cost end
    end
  elseif operation == FORCE then
    before = held > 0 and { ends, held } or { 0, 0 }
    left = math.max(held, math.min(held + cost, limit))
  elseif operation == RESET then
    left, is_changed = 0, true
  else
    for position = first_run, #request, RUN do
      local units, _, begins = read('<ddd', request, position)
      if begins >= ends - period and begins < ends then left = math.max(left - units, 0) end
    end
  end

  if left > 0 then a, b = ends, left end
  if is_changed or left ~= held then
    if left > 0 then value, expires = pack('<ddd', ends, period, left), ends else value = '' end
  end
end
