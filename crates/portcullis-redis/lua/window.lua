-- A count per window, of a period or of a calendar. Mirrors algorithm/fixed_window.rs and algorithm/calendar_window.rs of portcullis-core.
--
-- A state is three little-endian doubles: the end of the window and its length in microseconds, or the number of a calendar window and
-- its end, and the count. The reply has the end and the count, or all three.
--
-- Parameters of a fixed window: the period, the phase (equal to the period if each key has its own windows), the limit (or, for a forced
-- charge, the most units of a window), and the cost. A run to refund is its units and the start of its window.
--
-- Parameters of a calendar window: the end of the window after it, the limit (or the most units), the cost, the number of the window, its
-- start and its end. These are the two windows nearest to the caller's clock; in which of them the server's clock is, is decided here. A run
-- to refund is its units and the number of its window.
if algorithm == FIXED_WINDOW or algorithm == CALENDAR_WINDOW then
  local number, ends, limit, cost = nil, nil, p3, p4
  if algorithm == FIXED_WINDOW then
    ends = now + p1
    if p2 < p1 then ends = ends - (ends - p2) % p1 end
  else
    if now < p5 or now >= p1 then
      return redis.error_reply(string.format('PORTCULLIS bad clock: the server is at %.0f us, outside of the two calendar windows nearest '
        .. 'to the clock of the caller, from %.0f us to %.0f us', now, p5, p1))
    end
    number, ends, limit, cost = p4, p6, p2, p3
    if now >= p6 then number, ends = p4 + 1, p1 end
  end

  local held, is_changed = 0, false
  if raw and raw ~= '' then
    local first, second, units = -1, 0, 0
    if #raw == 24 then first, second, units = read('<ddd', raw) end
    if not (first >= 0 and first < EXACT and first % 1 == 0 and second >= 0 and second < EXACT and second % 1 == 0
      and units >= 0 and units < EXACT and units % 1 == 0) then
      is_changed = true
    elseif number then
      if units > 0 and second > now and first >= number then
        held = units
        -- A window that begins next is kept; one that is farther ahead moves to now with its count. No end is brought forward.
        if first == number + 1 then
          number, ends = first, second
        elseif first > number then
          is_changed = true
        else
          ends, is_changed = math.max(second, ends), second < ends
        end
      end
    elseif second == p1 and units > 0 and first > now and (p2 == p1 or first % p1 == p2) then
      held = units
      -- Time stands still until a window that has not begun; a window that is farther ahead moves to now with its count.
      if first - now > 2 * p1 then is_changed = true else ends = first end
    end
  end

  if times > 1 or operation == FORCE then
    before = number and { number, ends, held } or { ends, held }
    if held == 0 then before = number and { 0, 0, 0 } or { 0, 0 } end
  end
  local left = held
  if times > 1 then
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
    left = math.max(held, math.min(held + cost, limit))
  elseif operation == RESET then
    left, is_changed = 0, true
  else
    for position = first_run, #request, RUN do
      local units, _, charged = read('<ddd', request, position)
      local is_own = charged == number
      if not number then is_own = charged >= ends - p1 and charged < ends end
      if is_own then left = math.max(left - units, 0) end
    end
  end

  if left > 0 then a, b = ends, left end
  if number then fields = left > 0 and { number, ends, left } or { 0, 0, 0 } end
  if is_changed or left ~= held then
    if left > 0 then value, expires = pack('<ddd', number or ends, number and ends or p1, left), ends else value = '' end
  end
end
