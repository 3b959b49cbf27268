-- Gives claimed keys back to the pool, to the places that they had there. ARGV: as for `refusal`,
-- then the instance, the length of an era, and the keys.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next')
local function era_of(revision)
  return math.floor(tonumber(revision) / tonumber(ARGV[7]))
end
local released = false
for argument = 8, #ARGV do
  local key = ARGV[argument]
  local text = redis.call('HGET', used, key)
  local known = text and cjson.decode(text)
  -- What was claimed before an advance may be in use, as far as anybody knows.
  if known and known.instance == ARGV[6] and not known.retired_at and known.claimed
    and era_of(known.claimed) == era_of(found[1]) then
    redis.call('HDEL', used, key)
    redis.call('ZREM', used_times, member(known.place, key))
    redis.call('ZADD', pool, known.place, key)
    released = true
  end
end
if released then found[1] = step() end
return {'ok', found[1], found[2]}
