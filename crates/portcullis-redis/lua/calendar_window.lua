-- A count per window of a calendar. Mirrors algorithm/calendar_window.rs of portcullis-core.
--
-- A state is the number of the window, its end in microseconds, and the count: three little-endian doubles, which are the reply
-- too. Parameters: the limit (or, for a forced charge, the most units of a window), the cost, the number of a window, its start and its end, and the end of the next one. These are the
-- two windows nearest to the caller's clock; in which of them the server's clock is, is decided here. A run to refund is its units
-- and the number of its window.
if algorithm == CALENDAR_WINDOW then
  local limit, cost, number, ends = p1, p2, p3, p5
  if now < p4 or now >= p6 then
    return redis.error_reply(string.format('PORTCULLIS bad clock: the server is at %.0f us, outside of the two calendar windows nearest '
      .. 'to the clock of the caller, from %.0f us to %.0f us', now, p4, p6))
  end
  if now >= p5 then number, ends = p3 + 1, p6 end

  local window, finish, held, is_changed = number, ends, 0, false
  if raw and raw ~= '' then
    local former, former_end, units = -1, 0, 0
    if #raw == 24 then former, former_end, units = read('<ddd', raw) end
    if former >= 0 and former < EXACT and former % 1 == 0 and former_end >= 0 and former_end < EXACT
      and former_end % 1 == 0 and units >= 0 and units < EXACT and units % 1 == 0 then
      if units > 0 and former_end > now and former >= number then
        held = units
        -- A window that begins next is kept; one that is farther ahead moves to now with its count. No end is brought forward.
        if former == number + 1 then
          window, finish = former, former_end
        elseif former > number then
          is_changed = true
        else
          finish, is_changed = math.max(former_end, ends), former_end < ends
        end
      end
    else
      is_changed = true
    end
  end

  local left = held
  if times > 1 then
    before = held > 0 and { window, finish, held } or { 0, 0, 0 }
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
    before = held > 0 and { window, finish, held } or { 0, 0, 0 }
    left = math.max(held, math.min(held + cost, limit))
  elseif operation == RESET then
    left, is_changed = 0, true
  else
    for position = first_run, #request, RUN do
      local units, _, charged = read('<ddd', request, position)
      if charged == window then left = math.max(left - units, 0) end
    end
  end

  fields = left > 0 and { window, finish, left } or { 0, 0, 0 }
  if is_changed or left ~= held then
    if left > 0 then value, expires = pack('<ddd', window, finish, left), finish else value = '' end
  end
end
