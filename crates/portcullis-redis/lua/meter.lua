-- The exact meter. Mirrors algorithm/meter.rs of portcullis-core.
--
-- A state is the instant at which the meter is empty, in microseconds, and unless it is 0 a remainder of 1/q
-- microseconds. Parameters: q, the capacity and the cost, each as microseconds and remainder, and the grain of time, of
-- which the meter sees only the multiples.
algorithms.meter = { takes = 6, fewest = 1, most = 2 }

function algorithms.meter.decide(state, now, operation, params)
  local q, full, full_rest, cost, cost_rest, grain = unpack(params)
  if grain > 1 then now = now - now % grain end

  local function normal(micros, rest)
    if rest >= q then return micros + 1, rest - q end
    if rest < 0 then return micros - 1, rest + q end
    return micros, rest
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
    local micros, remainder = state[1], state[2] or 0
    -- A remainder from before the quota changed counts as a whole microsecond.
    if remainder >= q then micros, remainder = micros + 1, 0 end
    if micros >= now then level, rest = micros - now, remainder end
    -- A refund leaves the cut to the next decision: it frees what was charged, never more.
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
    if cost == 0 and cost_rest == 0 then return true, before, before, moved end
    local left, left_rest = normal(level - cost, rest - cost_rest)
    if left < 0 then left, left_rest = 0, 0 end
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
