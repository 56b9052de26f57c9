-- The permits of requests in flight. Mirrors algorithm/in_flight.rs of portcullis-core.
--
-- A state is the epoch, the serial number of the next permit and the latest expiry, then the expiry and the serial number of each
-- permit, those that expire first in front. Without permits the header stays until the latest expiry, so that no number is given
-- twice. All are doubles as elsewhere, but big-endian: a search for a serial number skips most other bytes by its first byte.
-- Parameters: the lease, the limit, and the cost. A run to release or to renew is its units, the epoch and its last serial number;
-- in a renewal its second number is that of its check.
-- The reply has the header, the number of permits that are held and the expiry of the last of them, or zeros; that to a renewal the
-- number of permits of each run that it has renewed.
--
-- Only expired permits are read one by one. Those that are held are copied as bytes, except where several are released or renewed.
if algorithm == IN_FLIGHT then
  local limit, cost, last = p2, p3, now + p1
  local HEADER, PERMIT, MOST_PERMITS = 24, 16, 2000
  if limit > 1000 or last >= EXACT then return redis.error_reply('PORTCULLIS bad limit') end

  -- A state with its header, and where the permits begin that are held.
  local permits, held = raw or '', HEADER + 1
  local epoch, following, latest, is_changed = now, 1, 0, false
  if permits ~= '' then
    local first, serial, finish, newest = -1, 0, 0, 0
    if #raw >= HEADER and (#raw - HEADER) % PERMIT == 0 and #raw <= HEADER + MOST_PERMITS * PERMIT then
      first, serial, finish = read('>ddd', raw)
      newest = #raw > HEADER and read('>d', raw, #raw - PERMIT + 1) or finish
    end
    if first >= 0 and first < EXACT and first % 1 == 0 and serial > 0 and serial <= EXACT and serial % 1 == 0
      and newest > 0 and newest % 1 == 0 and finish >= newest and finish < EXACT and finish % 1 == 0 then
      if finish > now then
        epoch, following, latest = first, serial, finish
        while held < #raw and not (read('>d', raw, held) > now) do held = held + PERMIT end
        -- After a step of the clock no permit is held for longer than a lease.
        if latest > last then
          latest, is_changed = last, true
          local kept, parts = #raw, { '' }
          while kept >= held and read('>d', raw, kept - PERMIT + 1) > last do kept = kept - PERMIT end
          for permit = kept + 1, #raw, PERMIT do
            parts[#parts + 1] = pack('>d', last) .. string.sub(raw, permit + 8, permit + 15)
          end
          parts[1] = string.sub(raw, 1, HEADER) .. string.sub(raw, held, kept)
          permits, held = table.concat(parts), HEADER + 1
        end
      end
    else
      is_changed = true
    end
    if latest == 0 then permits = '' end
  end

  local used, added = math.max(#permits - held + 1, 0) / PERMIT, 0
  if operation == FORCE then
    before = { 0, 0, 0, 0, 0 }
    if latest > 0 then
      before = { epoch, following, latest, used, used > 0 and read('>d', permits, #permits - PERMIT + 1) or 0 }
    end
  end
  -- What follows the header from now on, unless it stays.
  local body = nil
  if operation == CHECK then
    if cost > 0 then
      fits = used + cost <= limit and following + cost <= EXACT
      if fits and not denied then added = cost end
    end
  elseif operation == FORCE then
    added = math.min(cost, math.max(2 * limit - used, 0), EXACT - following)
  elseif operation == RESET then
    latest, is_changed = 0, true
  else
    local from, to = first_run, #request
    if operation == RENEW then
      from, to = next_run, next_run - 1
      while to < #request and read('<d', request, to + 9) == index do to = to + RUN end
      next_run, fields = to + 1, {}
    end
    if from < to and to - from < RUN and read('<d', request, from) <= 1 then
      local units, _, charged, newest = read('<dddd', request, from)
      local serial, found = pack('>d', newest), nil
      if units == 1 and charged == epoch and used > 0 then
        found = string.find(permits, serial, held, true)
        while found and found % PERMIT ~= 1 do found = string.find(permits, serial, found + 1, true) end
      end
      if found then
        body = string.sub(permits, HEADER + 1, found - 9) .. string.sub(permits, found + 8)
        if operation == RENEW then body, latest = body .. pack('>d', last) .. serial, last else used = used - 1 end
      end
      if operation == RENEW then fields[1] = found and 1 or 0 end
    elseif from < to then
      -- The serial numbers of the runs, and those of them that are held.
      local asked, found = {}, {}
      for position = from, to, RUN do
        local units, _, charged, newest = read('<dddd', request, position)
        if charged == epoch and used > 0 then
          for serial = newest, newest - math.min(units, MOST_PERMITS) + 1, -1 do asked[serial] = true end
        end
      end
      local start, kept, moved = HEADER + 1, {}, {}
      for permit = held, #permits, PERMIT do
        local serial = read('>d', permits, permit + 8)
        if asked[serial] then
          found[serial] = true
          kept[#kept + 1] = string.sub(permits, start, permit - 1)
          start = permit + PERMIT
          if operation == RENEW then moved[#moved + 1] = pack('>dd', last, serial) else used = used - 1 end
        end
      end
      if #kept > 0 then body = table.concat(kept) .. string.sub(permits, start) .. table.concat(moved) end
      if #moved > 0 then latest = last end
      for position = from, operation == RENEW and to or 0, RUN do
        local units, _, charged, newest = read('<dddd', request, position)
        local number = 0
        if charged == epoch then
          for serial = newest, newest - math.min(units, MOST_PERMITS) + 1, -1 do
            if found[serial] then number = number + 1 end
          end
        end
        fields[#fields + 1] = number
      end
    end
  end

  if added > 0 then
    -- A charge drops the permits that have expired. Others keep them, because they count again after a step of the clock.
    body = string.sub(permits, held)
    if added == 1 then
      body = body .. pack('>dd', last, following)
    else
      local taken = {}
      for unit = 1, added do taken[unit] = pack('>dd', last, following + unit - 1) end
      body = body .. table.concat(taken)
    end
    used, following, latest = used + added, following + added, last
  end
  if operation ~= RENEW then
    fields = { 0, 0, 0, 0, 0 }
    if latest > 0 then
      local all, newest = body or permits, 0
      if used > 0 then newest = read('>d', all, #all - PERMIT + 1) end
      -- A release may leave a corrupt permit at the end, which is repaired when the state is read again.
      if not (newest >= 0 and newest <= latest and newest % 1 == 0) then newest = latest end
      fields = { epoch, following, latest, used, newest }
    end
  end
  if latest > 0 and (body or is_changed) then
    value, expires = pack('>ddd', epoch, following, latest) .. (body or string.sub(permits, HEADER + 1)), latest
  elseif is_changed then
    value = ''
  end
end
