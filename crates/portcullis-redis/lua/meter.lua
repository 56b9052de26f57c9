-- The exact meter of the rate-based algorithms. Mirrors algorithm/meter.rs of portcullis-core.
--
-- A state is the instant at which the meter is empty, in microseconds, and a remainder of 1/q microseconds unless it is 0.
-- Parameters: q, the capacity and the cost, each as microseconds and remainder, and the time grain, to whose multiples the
-- time is rounded down. A run to refund is its length and its end, each as microseconds and remainder.
algorithms.meter = { param_count = 6, run = 4, min_fields = 1, max_fields = 2 }

function algorithms.meter.decide(state, now, operation, params, key, if_newest)
  local q, full, full_rest, cost, cost_rest, grain = unpack(params, 1, 6)
  if grain > 1 then now = now - now % grain end

  local function normal(micros, rest)
    if rest >= q then return micros + 1, rest - q end
    if rest < 0 then return micros - 1, rest + q end
    return micros, rest
  end
  -- Returns how far an instant is after now. A remainder under an earlier quota counts as a whole microsecond.
  local function ahead(micros, rest)
    if rest >= q then micros, rest = micros + 1, 0 end
    if micros < now then return 0, 0 end
    return micros - now, rest
  end
  local function exceeds(micros, rest, other, other_rest)
    return micros > other or (micros == other and rest > other_rest)
  end
  local function empties(micros, rest)
    if micros == 0 and rest == 0 then return nil end
    local expires = now + micros + (rest > 0 and 1 or 0)
    if grain > 1 then expires = expires + (grain - expires % grain) % grain end
    return { now + micros, rest > 0 and rest or nil, expires = expires }
  end

  local deepest, deepest_rest = normal(full * 2, full_rest * 2)
  local level, rest, moved = 0, 0, false
  if state then
    level, rest = ahead(state[1], state[2] or 0)
    -- A refund leaves the cut to the next decision, because it must free only what was charged.
    local cut = operation ~= 'refund' and exceeds(level, rest, deepest, deepest_rest)
    if cut then level, rest, moved = full, full_rest, true end
  end

  local before = empties(level, rest)
  if operation == 'check' then
    if cost == 0 and cost_rest == 0 then return true, before, before, moved end
    local charged, charged_rest = normal(level + cost, rest + cost_rest)
    if exceeds(charged, charged_rest, full, full_rest) then return false, before, before, moved end
    return true, before, empties(charged, charged_rest), moved
  elseif operation == 'refund' then
    local left, left_rest = level, rest
    -- The newest first. Only the part of a run after now is freed: the rest has flowed back already.
    for index = 7, #params, 4 do
      local length, length_rest, ends, ends_rest = unpack(params, index, index + 3)
      local freed, freed_rest = ahead(ends, ends_rest)
      if not if_newest or (freed == left and freed_rest == left_rest) then
        if exceeds(freed, freed_rest, length, length_rest) then freed, freed_rest = length, length_rest end
        left, left_rest = normal(left - freed, left_rest - freed_rest)
        if left < 0 then left, left_rest = 0, 0 end
      end
    end
    if left == level and left_rest == rest then return true, before, before, moved end
    return true, before, empties(left, left_rest), moved
  elseif operation == 'force' then
    local charged, charged_rest = normal(level + cost, rest + cost_rest)
    if exceeds(charged, charged_rest, deepest, deepest_rest) then
      charged, charged_rest = deepest, deepest_rest
    end
    if charged == level and charged_rest == rest then return true, before, before, moved end
    return true, before, empties(charged, charged_rest), moved
  end
  return true, before, nil, true
end
