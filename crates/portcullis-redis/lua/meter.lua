-- The exact meter of the rate-based algorithms. Mirrors algorithm/meter.rs of portcullis-core.
--
-- A state is the instant at which the meter is empty, in microseconds, and a remainder of 1/q microseconds unless it is 0:
-- one or two little-endian doubles. Parameters: q, the highest level and the cost, each as microseconds and remainder, and the
-- time grain, to whose multiples the time is rounded down. The highest level is the burst, and what drains in the longest wait; a
-- cost that can never fit exceeds it. The level may be twice the highest one, unless there are three parameters more: the level
-- above which it is the result of a step of the clock, in microseconds, and that up to which a forced charge goes. A run to refund is its length and its end, each as microseconds and remainder.
if algorithm == METER then
  local q, full, full_rest, cost, cost_rest, grain = p1, p2, p3, p4, p5, p6
  local at = grain > 1 and now - now % grain or now
  local level, rest, is_changed = 0, 0, false
  if raw and raw ~= '' then
    local micros, remainder = -1, 0
    if #raw == 8 then
      micros = read('<d', raw)
    elseif #raw == 16 then
      micros, remainder = read('<dd', raw)
    end
    if micros >= 0 and micros < EXACT and micros % 1 == 0
      and remainder >= 0 and remainder < EXACT and remainder % 1 == 0 then
      -- A remainder under an earlier quota counts as a whole microsecond.
      if remainder >= q then micros, remainder = micros + 1, 0 end
      if micros >= at then level, rest = micros - at, remainder end
    else
      is_changed = true
    end
  end

  local deepest, deepest_rest = 2 * full, 2 * full_rest
  if deepest_rest >= q then deepest, deepest_rest = deepest + 1, deepest_rest - q end
  local ceiling, ceiling_rest = deepest, deepest_rest
  if p7 > 0 then ceiling, ceiling_rest, deepest, deepest_rest = p7, 0, p8, p9 end
  -- A refund leaves the cut to the next decision, because it must free only what was charged.
  if not refunds and (level > ceiling or (level == ceiling and rest > ceiling_rest)) then
    level, rest, is_changed = full, full_rest, true
  end

  if times > 1 or operation == FORCE then before = level + rest > 0 and { at + level, rest } or { 0, 0 } end
  if times > 1 then
    if cost_rest == 0 and rest == 0 and cost > 0 then
      local fitting = fitting_times(full - level, cost)
      fits = fitting == times
      if fitting > 0 then level, is_changed = level + fitting * cost, true end
    elseif cost > 0 or cost_rest > 0 then
      for _ = 1, times do
        local charged, charged_rest = level + cost, rest + cost_rest
        if charged_rest >= q then charged, charged_rest = charged + 1, charged_rest - q end
        fits = charged < full or (charged == full and charged_rest <= full_rest)
        if not fits then break end
        level, rest, is_changed = charged, charged_rest, true
      end
    end
  elseif operation == CHECK then
    if cost > 0 or cost_rest > 0 then
      local charged, charged_rest = level + cost, rest + cost_rest
      if charged_rest >= q then charged, charged_rest = charged + 1, charged_rest - q end
      fits = charged < full or (charged == full and charged_rest <= full_rest)
      if fits and not denied then level, rest, is_changed = charged, charged_rest, true end
    end
  elseif operation == FORCE then
    local charged, charged_rest = level + cost, rest + cost_rest
    if charged_rest >= q then charged, charged_rest = charged + 1, charged_rest - q end
    if charged > deepest or (charged == deepest and charged_rest > deepest_rest) then
      charged, charged_rest = deepest, deepest_rest
      -- Another quota of the policy may have left a higher level, which stays.
      if level > charged or (level == charged and rest > charged_rest) then charged, charged_rest = level, rest end
    end
    if charged ~= level or charged_rest ~= rest then level, rest, is_changed = charged, charged_rest, true end
  elseif operation == RESET then
    level, rest, is_changed = 0, 0, true
  else
    local left, left_rest = level, rest
    -- The newest first. Only the part of a run after now is freed: the rest has flowed back already.
    for position = first_run, #request, RUN do
      local length, length_rest, ends, ends_rest = read('<dddd', request, position)
      if ends_rest >= q then ends, ends_rest = ends + 1, 0 end
      local freed, freed_rest = 0, 0
      if ends >= at then freed, freed_rest = ends - at, ends_rest end
      if operation == REFUND or (freed == left and freed_rest == left_rest) then
        if freed > length or (freed == length and freed_rest > length_rest) then
          freed, freed_rest = length, length_rest
        end
        left, left_rest = left - freed, left_rest - freed_rest
        if left_rest < 0 then left, left_rest = left - 1, left_rest + q end
        if left < 0 then left, left_rest = 0, 0 end
      end
    end
    if left ~= level or left_rest ~= rest then level, rest, is_changed = left, left_rest, true end
  end

  if level > 0 or rest > 0 then a, b = at + level, rest end
  if is_changed then
    if level > 0 or rest > 0 then
      value = rest > 0 and pack('<dd', a, rest) or pack('<d', a)
      expires = rest > 0 and a + 1 or a
      if grain > 1 then expires = expires + (grain - expires % grain) % grain end
    else
      value = ''
    end
  end
end
