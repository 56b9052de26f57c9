-- One check of a rate-based algorithm in short form, made once or several times, which most calls are. It comes to the same as the
-- driver and meter.lua, without tables and without the loop. Whatever is unusual about the request or the state is left to these:
-- nothing is written here before all is known to be as expected, and the value that was read is in `found`.
local found
if #request == 54 or #request == 55 then
  -- The operation `CHECK`, a check and a record; the only check by the first record, about the first key; the algorithm `METER`.
  local head, kind, q, full, full_rest, cost, cost_rest, grain
  local times = 1
  if #request == 54 then
    head, kind, q, full, full_rest, cost, cost_rest, grain = read('<I4I2dddddd', request)
  else
    -- How often it is made comes before the algorithm, and 64 is added to the operation.
    local algorithm
    head, kind, times, algorithm, q, full, full_rest, cost, cost_rest, grain = read('<I4BBBdddddd', request)
    head, kind = head - 64, kind + 256 * algorithm
  end
  if head == 2147549441 and kind == 257 and KEYS[1] and times > 0
    and q > 0 and full >= 0 and full_rest >= 0 and cost >= 0 and cost_rest >= 0 and grain >= 0
    and q + full + full_rest + cost + cost_rest + grain < 9007199254740992
    and q % 1 + full % 1 + full_rest % 1 + cost % 1 + cost_rest % 1 + grain % 1 == 0 then
    found = command('GET', KEYS[1])
    local at = grain > 1 and now - now % grain or now
    local level, rest, is_known = 0, 0, found == false
    if type(found) == 'table' then
      found = nil
    elseif found then
      local micros, remainder = -1, 0
      if #found == 8 then
        micros = read('<d', found)
      elseif #found == 16 then
        micros, remainder = read('<dd', found)
      end
      is_known = micros >= 0 and micros < 9007199254740992 and micros % 1 == 0
        and remainder >= 0 and remainder < q and remainder % 1 == 0
      if micros >= at then level, rest = micros - at, remainder end
    end
    -- A higher level may be the result of a step of the clock.
    if is_known and level < 2 * full then
      local charged, charged_rest = level + cost, rest + cost_rest
      if charged_rest >= q then charged, charged_rest = charged + 1, charged_rest - q end
      local fits = charged < full or (charged == full and charged_rest <= full_rest)
      if fits and (cost > 0 or cost_rest > 0) then
        local others = times - 1
        if others > 0 and charged_rest == 0 and cost_rest == 0 then
          local left = full - charged
          local fitting = math.min(others, (left - left % cost) / cost)
          fits, charged = fitting == others, charged + fitting * cost
        elseif others > 0 then
          for _ = 1, others do
            local sum, sum_rest = charged + cost, charged_rest + cost_rest
            if sum_rest >= q then sum, sum_rest = sum + 1, sum_rest - q end
            fits = sum < full or (sum == full and sum_rest <= full_rest)
            if not fits then break end
            charged, charged_rest = sum, sum_rest
          end
        end
        local empty = at + charged
        local expires = charged_rest > 0 and empty + 1 or empty
        if grain > 1 then expires = expires + (grain - expires % grain) % grain end
        local expiry = expires - now + 1999
        expiry = (expiry - expiry % 1000) / 1000
        local answer = command('SET', KEYS[1], charged_rest > 0 and pack('<dd', empty, charged_rest) or pack('<d', empty),
          'PX', EXPIRY or string.format(expiry < 2147483648 and '%d' or '%.0f', expiry))
        if answer.err then return answer end
        local status = fits and 1 + 2 * expiry or 2 * expiry
        if times == 1 then return pack('<dddd', now, status, empty, charged_rest) end
        return pack('<dddddd', now, status, empty, charged_rest, level + rest > 0 and at + level or 0, rest)
      end
      local status, empty = cost == 0 and cost_rest == 0 and 1 or 0, level + rest > 0 and at + level or 0
      if times == 1 then return pack('<dddd', now, status, empty, rest) end
      return pack('<dddddd', now, status, empty, rest, empty, rest)
    end
  end
end
