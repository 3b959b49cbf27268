-- Writes rows of a space that comes from another store; those that are there are left as they are.
-- ARGV: as for `refusal`, then what is imported, the length of an era, and the rows, each as its kind and
-- the columns that the function of that kind takes.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'sealed', 'importing', 'revision', 'next')
if found[1] ~= '1' or found[2] ~= ARGV[6] then return {'outdated'} end
local era = math.floor(tonumber(found[3]) / tonumber(ARGV[7]))
local skips = space .. ':skips'

local function or_nil(text)
  if text == '' then return nil end
  return text
end

local rows = {}

rows.lease = {9, function(lease, range_start, range_end, purpose, instance, holder, granted_at,
    closed_at_ordinal, closed_at)
  local key = space .. ':lease:' .. lease
  if redis.call('EXISTS', key) == 1 then return end
  record(lease, range_start, range_end, purpose, instance, holder)
  redis.call('HSET', key, 'granted_at', granted_at)
  if closed_at_ordinal ~= '' then redis.call('HSET', key, 'closed_at_ordinal', closed_at_ordinal) end
  if closed_at ~= '' then
    redis.call('HSET', key, 'closed_at', closed_at)
    redis.call('HDEL', space .. ':open', lease)
  end
end}

rows.worker = {2, function(worker, row)
  redis.call('HSETNX', space .. ':workers', worker, row)
end}

rows.name = {2, function(key, text)
  if redis.call('HSETNX', space .. ':names', key, text) == 0 then return end
  local name = cjson.decode(text)
  if name.ordinal then
    redis.call('ZADD', skips, 0, padded(name.ordinal))
  else
    redis.call('ZADD', space .. ':unplaced', 0, key)
  end
  list_name(key, name)
end}

rows.in_use = {2, function(ordinal, imported_at)
  redis.call('HSETNX', space .. ':in_use', ordinal, imported_at)
  redis.call('ZADD', skips, 0, padded(ordinal))
end}

-- What was written before an advance may be in use, and a used key is nothing else.
rows.available = {2, function(written_in, key)
  if tonumber(written_in) < era or redis.call('HEXISTS', used, key) == 1 then return end
  if not redis.call('ZSCORE', pool, key) then
    redis.call('ZADD', pool, whole(new_places(1)), key)
  end
end}

rows.used = {7, function(key, id, used_at, caller, instance, expires_at, retired_at)
  if redis.call('HEXISTS', used, key) == 1 then return end
  -- It may have been read as available before it was retired.
  local place = redis.call('ZSCORE', pool, key)
  redis.call('ZREM', pool, key)
  place = whole(place and tonumber(place) or new_places(1))
  redis.call('HSET', used, key, cjson.encode({place = place, id = or_nil(id), used_at = used_at,
    caller = caller, instance = instance, expires_at = or_nil(expires_at),
    retired_at = or_nil(retired_at)}))
  redis.call('ZADD', used_times, used_at, member(place, key))
end}

rows.digest = {2, function(input, key)
  redis.call('HSETNX', space .. ':digests', input, key)
end}

local argument = 8
while argument <= #ARGV do
  local columns, write = unpack(rows[ARGV[argument]])
  write(unpack(ARGV, argument + 1, argument + columns))
  argument = argument + 1 + columns
end
local revision = plus(found[3], '1')
redis.call('HSET', space, 'revision', revision)
return {'ok', revision, found[4]}
