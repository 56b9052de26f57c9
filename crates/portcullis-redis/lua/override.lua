-- The override of a key: a block, and a grant of another quota. Mirrors overrides.rs of portcullis-core and its encoding.
--
-- A record is 33, a byte with the sum of its parts, and of each part the instant at which it ends, its length in microseconds and
-- other numbers: big-endian, of 8 bytes. A record of another form is none. A part that ends farther from now than it is long, because
-- the clock was set back, is cut. The reply has the five numbers of the grant, or zeros; and what is left of the block, or 0. A blocked
-- key has no grant. Parameters: the position in the decision of the check of the key's state, which comes before, counted from 1; and
-- the grant under which that check is encoded. The check of the override fits if the key has this grant and is not blocked. With
-- another grant the decision writes no state, because under a wrong quota even the repair of a state would be wrong; nor is the state of a
-- blocked key repaired. A cut end is written even so: otherwise it would be another grant at each instant.
if algorithm == OVERRIDE then
  if operation ~= CHECK then return redis.error_reply('PORTCULLIS bad operation') end
  local LONGEST = 2251799813685248
  fields = { 0, 0, 0, 0, 0, 0 }
  local parts, size = 0, 2
  if raw and byte(raw, 1) == 33 then parts = byte(raw, 2) or 0 end
  if parts % 2 >= 1 then size = size + 16 end
  if parts % 4 >= 2 then size = size + 40 end
  if parts % 8 >= 4 then size = size + 24 end
  if parts % 16 >= 8 then size = size + 24 end
  if parts > 0 and parts < 16 and #raw == size then
    local position, part, latest, repaired = 3, 1, 0, nil
    while position < size do
      if parts % (2 * part) >= part then
        local ends, span = read('>I8I8', raw, position)
        if ends >= EXACT or span > LONGEST then
          fields, repaired = { 0, 0, 0, 0, 0, 0 }, nil
          break
        end
        if ends > now + span then
          ends, repaired = now + span, repaired or raw
          repaired = string.sub(repaired, 1, position - 1) .. pack('>I8', ends) .. string.sub(repaired, position + 8)
        end
        latest = math.max(latest, ends)
        if part == 1 then
          fields[6] = math.max(ends - now, 0)
        elseif part == 2 and ends > now and fields[6] == 0 then
          local limit, period, burst = read('>I8I8I8', raw, position + 16)
          if limit < EXACT and period < EXACT and burst < EXACT then fields = { ends, span, limit, period, burst, 0 } end
        end
        position = position + (part == 1 and 16 or part == 2 and 40 or 24)
      end
      part = 2 * part
    end
    if repaired then value, expires = repaired, latest end
  end
  local is_same = fields[1] == p2 and fields[2] == p3 and fields[3] == p4 and fields[4] == p5 and fields[5] == p6
  local state = byte(request, HEAD + 2 * (first + p1 - 1)) or 0
  if fields[6] > 0 and not (kept and kept[state]) then
    kept, again = kept or {}, true
    kept[state] = true
  end
  if not is_same and not stale then stale, again = true, true end
  fits = is_same and fields[6] == 0
end
