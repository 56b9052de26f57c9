-- The instants of all units of a period. Mirrors algorithm/sliding_log.rs of portcullis-core.
--
-- The value is a header and a ring of stamps, the oldest first, 8 bytes for each unit. The header is a mark, the instant of
-- the newest stamp, the index of the oldest stamp in the ring, the number of stamps, and the capacity of the ring. Only the
-- distance of a stamp to the newest matters, modulo 2^52, so that a step of the clock moves all stamps through the header.
--
-- The reply has the figures of a log: the units that count, the stamp after which one more unit fits, the newest stamp, and the
-- stamp after which a denied cost fits or 0; of an empty log four zeros. Parameters: the period, the limit, the cost, and
-- for a forced charge the most units of a log. A run to refund is its units and their stamp.
--
-- A `value` is a table: `write` writes the log with an expiry, and `prove` makes sure that it may be written, where that takes
-- other commands than `SET`. The ring is read anew for each check, without earlier charges of the call, so a log may be charged
-- by one decision of a call only.
if algorithm == SLIDING_LOG then
  -- The functions are made by the first check of a log.
  if not decide_log then
    local MARK, HEADER, STAMP = 'log1', 24, 8
    local MODULUS = 4503599627370496
    -- Stamps are fetched in blocks, and a log of at most one block is written as a whole.
    local BLOCK = 64
    local MOST = 100000

    local function failed(reply) return type(reply) == 'table' and reply.err and reply or nil end

    local function header(newest, first, count, capacity)
      return MARK .. pack('>I8I4I4I4', newest, first, count, capacity)
    end

    local function fetch(key, first, last)
      return command('GETRANGE', key, HEADER + first * STAMP, HEADER + last * STAMP + STAMP - 1)
    end

    local Log = {}
    Log.__index = Log

    -- Returns the stamp at an index, 0 being the oldest, as bytes.
    function Log:stamp(index)
      local position = (self.first + index) % self.capacity
      local offset = position % BLOCK
      local start = position - offset
      local block = self.blocks[start]
      if not block then
        block = fetch(self.key, start, start + BLOCK - 1)
        self.blocks[start] = block
      end
      return string.sub(block, offset * STAMP + 1, (offset + 1) * STAMP)
    end

    function Log:instant(index)
      local age = (self.last - read('>I8', self:stamp(index))) % MODULUS
      return math.max(self.newest - age, 0)
    end

    -- Returns the first index from `from` on whose instant is later than `instant`, or the newest index if there is none.
    function Log:after(instant, from)
      local low, high = from, self.count - 1
      if low >= high or self:instant(low) > instant then return low end
      -- It is usually near: search to the end of the block first, then in growing steps.
      local near, step = low + BLOCK - 1 - (self.first + low) % self.capacity % BLOCK, BLOCK
      while near < high do
        if self:instant(near) > instant then high = near else low = near end
        near, step = near + step, 4 * step
      end
      while high - low > 1 do
        local middle = math.floor((low + high) / 2)
        if self:instant(middle) > instant then high = middle else low = middle end
      end
      return high
    end

    -- Returns the stamps from one index up to another, as bytes.
    function Log:bytes(from, to)
      if from >= to then return '' end
      local first, count = (self.first + from) % self.capacity, to - from
      local straight = math.min(count, self.capacity - first)
      local block = self.blocks[0]
      if straight == count and (first + count) * STAMP <= #block then
        return string.sub(block, first * STAMP + 1, (first + count) * STAMP)
      end
      local bytes = fetch(self.key, first, first + straight - 1)
      if straight == count then return bytes end
      return bytes .. fetch(self.key, 0, count - straight - 1)
    end

    -- Overwrites the stamps from an index on.
    function Log:put(index, bytes)
      local first = (self.first + index) % self.capacity
      local straight = (self.capacity - first) * STAMP
      local failure = failed(command('SETRANGE', self.key, HEADER + first * STAMP, string.sub(bytes, 1, straight)))
      if failure or #bytes <= straight then return failure end
      return failed(command('SETRANGE', self.key, HEADER, string.sub(bytes, straight + 1)))
    end

    -- Keeps the log from index `dead` on, and overwrites the stamps from `index` on if there are bytes. They may overwrite
    -- expired stamps, but only if the header is written as well. So the expiry is set first, which needs a permission of its
    -- own: without that permission nothing has changed.
    function Log:keep(expiry, newest, dead, count, index, bytes)
      local first = (self.first + dead) % self.capacity
      return failed(command('PEXPIRE', self.key, expiry))
        or bytes and self:put(index, bytes)
        or failed(command('SETRANGE', self.key, 0, header(newest, first, count, self.capacity)))
    end

    -- Changes only the expiry, by the commands that `keep` uses.
    function Log:prove(expiry)
      return failed(command('PEXPIRE', self.key, expiry)) or failed(command('SETRANGE', self.key, 0, MARK))
    end

    local function renew(key, expiry, newest, bytes, limit)
      local count = #bytes / STAMP
      local capacity = count
      -- A ring with the capacity of the limit is never recreated, and no ring is recreated often. At full length it needs no
      -- reserve.
      if count > BLOCK then capacity = math.max(count, math.min(2 * count, count > limit and 2 * limit or limit)) end
      local value = header(newest, 0, count, capacity) .. bytes .. string.rep('\0', (capacity - count) * STAMP)
      return failed(command('SET', key, value, 'PX', expiry))
    end

    local function read_log(key)
      local raw = command('GETRANGE', key, 0, HEADER + BLOCK * STAMP - 1)
      if type(raw) == 'table' then
        if string.find(raw.err, 'WRONGTYPE', 1, true) then return true end
        return nil, raw
      end
      if raw == '' then return nil end
      if #raw < HEADER + STAMP or string.sub(raw, 1, #MARK) ~= MARK then return true end
      local newest, first, count, capacity = read('>I8I4I4I4', raw, #MARK + 1)
      local is_valid = newest < 2 * MODULUS and count > 0 and count <= capacity and first < capacity and capacity <= 2 * MOST
      if not is_valid then return true end

      local log = { key = key, newest = newest, first = first, count = count, capacity = capacity }
      setmetatable(log, Log)
      log.blocks = { [0] = string.sub(raw, HEADER + 1) }
      -- If the farthest stamp is present, all before it are.
      local farthest = math.min(first + count, capacity) - 1 - first
      if #log:stamp(farthest) < STAMP then return true end
      log.last = read('>I8', log:stamp(count - 1))
      if log.last >= MODULUS then return true end
      return log
    end

    -- Returns whether the cost fits, the log before and after, each by its figures, and whether it has moved.
    local function decide(log, key, period, limit, cost, most)
      limit, most = math.min(limit, MOST), math.min(most, 2 * MOST)

      local at, dead, used, moved = now, 0, 0, false
      if log then
        -- Time stands still until the end of a log that ends after now; a log that ends farther ahead moves to now.
        moved = log.newest - now > period
        if moved then log.newest = now end
        at = math.max(now, log.newest)
        if log.newest + period > at then
          dead = log:after(at - period, 0)
          used = log.count - dead
        end
      end

      -- A stamp that counts has not expired, even if the stamps of a corrupt value are out of order.
      local function instant_of(index) return math.max(log:instant(index), at - period + 1) end

      local function prove(expiry) return log:prove(expiry) end
      local function view(write, count, newest, instant, prove)
        local oldest = instant(math.max(count - math.max(limit, 1), 0))
        return { count, oldest, newest, 0, expires = newest + period, write = write, prove = prove }
      end
      local before = used > 0 and view(
        function(expiry) return log:keep(expiry, log.newest, dead, used) end,
        used, log.newest, function(index) return instant_of(dead + index) end, prove
      ) or nil

      local function charged(units)
        local count = used + units
        local in_place = used > 0 and count > BLOCK and count <= log.capacity
        local function write(expiry)
          if used == 0 then return renew(key, expiry, at, string.rep(pack('>I8', at % MODULUS), units), limit) end
          local stamps = string.rep(pack('>I8', (log.last + (at - log.newest)) % MODULUS), units)
          if not in_place then
            return renew(key, expiry, at, log:bytes(dead, log.count) .. stamps, limit)
          end
          return log:keep(expiry, at, dead, count, log.count, stamps)
        end
        local function instant(index) return index < used and instant_of(dead + index) or at end
        return view(write, count, at, instant, in_place and prove or nil)
      end

      -- Returns the log without some gaps, each from one index up to another, the oldest first.
      local function without(gaps)
        local removed, newest = 0, log.newest
        for _, gap in ipairs(gaps) do removed = removed + gap[2] - gap[1] end
        local count = used - removed
        if count == 0 then return nil end
        -- Returns the index of a stamp before the removal from its index after it.
        local function former(index)
          for _, gap in ipairs(gaps) do
            if index < gap[1] then break end
            index = index + gap[2] - gap[1]
          end
          return index
        end
        if gaps[#gaps][2] == log.count then newest = instant_of(former(dead + count - 1)) end
        -- Returns the remaining stamps from one index up to another, as bytes.
        local function left(from, to)
          local pieces = {}
          for _, gap in ipairs(gaps) do
            if gap[1] >= from and gap[2] <= to then
              pieces[#pieces + 1] = log:bytes(from, gap[1])
              from = gap[2]
            end
          end
          pieces[#pieces + 1] = log:bytes(from, to)
          return table.concat(pieces)
        end
        local function write(expiry)
          if count <= BLOCK then return renew(key, expiry, newest, left(dead, log.count), limit) end
          -- The shorter side closes the gaps.
          local from, to = gaps[1][1], gaps[#gaps][2]
          if to - dead < log.count - from then
            local earlier, first = left(dead, to), dead + removed
            return log:keep(expiry, newest, first, count, first, earlier ~= '' and earlier or nil)
          end
          local later = left(from, log.count)
          return log:keep(expiry, newest, dead, count, from, later ~= '' and later or nil)
        end
        return view(write, count, newest, function(index) return instant_of(former(dead + index)) end)
      end

      -- Returns the gaps that the stamps of the runs leave, the oldest first.
      local function gaps_of_runs()
        local gaps = {}
        for position = #request - RUN + 1, first_run, -RUN do
          local units, _, stamp = read('<ddd', request, position)
          local last = gaps[#gaps]
          local from = stamp <= log.newest and log:after(stamp - 1, last and last[2] or dead) or log.count
          if units > 0 and from < log.count and log:instant(from) == stamp then
            local to = stamp == log.newest and log.count or log:after(stamp, from)
            gaps[#gaps + 1] = { from, math.min(to, from + units) }
          end
        end
        return gaps
      end

      if operation == CHECK then
        if cost == 0 then return true, before, before, moved end
        if used + cost > limit then
          if before and cost <= limit then before[4] = instant_of(dead + used + cost - limit - 1) end
          return false, before, before, moved
        end
        return true, before, not denied and charged(cost) or before, moved
      elseif operation == FORCE then
        local units = math.min(cost, math.max(most - used, 0))
        if units == 0 then return true, before, before, moved end
        return true, before, charged(units), moved
      elseif operation == RESET then
        return true, before, nil, true
      end
      local gaps = before and gaps_of_runs() or {}
      if #gaps == 0 then return true, before, before, moved end
      return true, before, without(gaps), moved
    end
    decide_log = function(name, period, limit, cost, most)
      local log, failure = read_log(name)
      if failure then return failure end
      local has_fitted, before, after, moved = decide(log ~= true and log or nil, name, period, limit, cost, most)
      return nil, has_fitted, before, after, moved or log == true
    end
  end

  if raw ~= nil then return redis.error_reply('PORTCULLIS charged log') end
  local failure, after, is_changed
  failure, fits, before, after, is_changed = decide_log(name, p1, p2, p3, p4)
  if failure then return failure end
  if is_changed or after ~= before then value, expires = after or '', after and after.expires end
  fields, before = after or { 0, 0, 0, 0 }, before or { 0, 0, 0, 0 }
end
