-- What all scripts on one space begin with. KEYS[1] is the space; its other keys begin with the
-- same hash tag, so that they lie on the same server.
--
-- Ordinals and revisions are decimal strings: Lua's numbers are doubles, and lose what lies
-- beyond 2^53.
local space = KEYS[1]

local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- The digits above the lowest ten, and the lowest ten: each fits a double.
local function halves(a)
  return tonumber(string.sub(a, 1, -11)) or 0, tonumber(string.sub(a, -10))
end

local function joined(high, low)
  if high == 0 then return string.format('%.0f', low) end
  return string.format('%.0f%010.0f', high, low)
end

local function plus(a, b)
  local a_high, a_low = halves(a)
  local b_high, b_low = halves(b)
  local high, low = a_high + b_high, a_low + b_low
  if low >= 1e10 then high, low = high + 1, low - 1e10 end
  return joined(high, low)
end

-- `a` is not below `b`.
local function minus(a, b)
  local a_high, a_low = halves(a)
  local b_high, b_low = halves(b)
  local high, low = a_high - b_high, a_low - b_low
  if low < 0 then high, low = high - 1, low + 1e10 end
  return joined(high, low)
end

-- So that strings sort as their numbers do.
local function padded(a)
  return string.rep('0', 20 - #a) .. a
end

-- Milliseconds since 1970, by this server's clock.
local function now()
  local time = redis.call('TIME')
  return time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
end

local function with_space(status)
  local answer = redis.call('HGETALL', space)
  table.insert(answer, 1, status)
  return answer
end

-- The lengths of the later generations of a definition in JSON.
local function grown(definition)
  return cjson.decode(definition).grown or {}
end

-- Refuses on a server that follows another: what it has may be old, and what it is told is lost.
local function no_master()
  local role = string.match(redis.call('INFO', 'replication'), 'role:(%a+)')
  if role == 'master' then return nil end
  return redis.error_reply('READONLY this server follows another')
end

-- Refuses when the space lies below the floor of the one who asks. ARGV begins with: the store (and
-- the lengths that the space was seen to have grown to, if any), the floor's revision and next,
-- whether this server's history continues the floor's, and where the floor's era ends (an advance
-- since then allows any history).
local function refusal()
  local unable = no_master()
  if unable then return unable end
  local found = redis.call('HMGET', space, 'store', 'revision', 'next', 'definition')
  if not found[1] then return {'unknown'} end
  local store, lengths = string.match(ARGV[1], '^(%S*) ?(.*)$')
  local strayed = ARGV[4] == '0' and less(found[2], ARGV[5])
  if found[1] ~= store or less(found[2], ARGV[2]) or less(found[3], ARGV[3]) or strayed then
    return with_space('below')
  end
  if lengths ~= '' then
    local known = {}
    for _, length in ipairs(grown(found[4])) do known[length] = true end
    for length in string.gmatch(lengths, '%d+') do
      if not known[tonumber(length)] then return with_space('below') end
    end
  end
  return nil
end

-- Whether the last lease of an instance (or nothing) is not on record any more. Outside of the era
-- that it was granted in, an advance explains that.
local function is_lost(instance, last, era_start, era_end)
  if last == '' then return false end
  local revision = redis.call('HGET', space, 'revision')
  return not less(revision, era_start) and less(revision, era_end)
    and redis.call('HGET', space .. ':lease:' .. last, 'instance') ~= instance
end

-- Closes a lease, at its end or where drawing ended; whether it was open, is the caller's, and ends
-- where the caller says, if it does.
local function close(lease, instance, drawn_to, lease_end)
  local key = space .. ':lease:' .. lease
  local found = redis.call('HMGET', key, 'instance', 'end', 'closed_at')
  if found[1] ~= instance or found[3] or (lease_end and found[2] ~= lease_end) then return false end
  redis.call('HSET', key, 'closed_at_ordinal', drawn_to or found[2], 'closed_at', now())
  redis.call('HDEL', space .. ':open', lease)
  return true
end

-- Records a range under the revision that the space moves to.
local function record(lease, range_start, range_end, purpose, instance, holder)
  redis.call('HSET', space .. ':lease:' .. lease, 'lease', lease, 'start', range_start,
    'end', range_end, 'purpose', purpose, 'instance', instance, 'holder', holder,
    'granted_at', now())
  redis.call('ZADD', space .. ':leases', 0, padded(lease))
  redis.call('ZADD', space .. ':starts', 0, padded(range_start) .. ':' .. lease)
  if purpose == 'lease' then
    redis.call('HSET', space .. ':open', lease, instance .. ' ' .. minus(range_end, range_start))
  end
end

-- Where a name is listed: by its purpose, but for those that were removed.
local function list_of(name)
  return name.removed_at and 'removed' or name.purpose
end

-- Keeps the list of all names, by purpose and key, beside their records; `before` is the name as it
-- was, if it was.
local function list_name(key, name, before)
  local listed = space .. ':listed'
  if before then redis.call('ZREM', listed, list_of(before) .. ':' .. key) end
  redis.call('ZADD', listed, 0, list_of(name) .. ':' .. key)
end
