-- Claims keys of the pool, which are used from then on. ARGV: as for `refusal`, then the instance,
-- the most keys, the share, and how many milliseconds a used key lives (or nothing). Answers with
-- how many are left, and the place and the key of each. The last of ARGV, if any, are a key that must
-- be on record as used by the instance, and the start and end of the era in which it must.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next', 'sealed')
if found[3] == '1' then return {'sealed'} end
if ARGV[10] and not less(found[1], ARGV[11]) and less(found[1], ARGV[12]) then
  local text = redis.call('HGET', used, ARGV[10])
  if not text or cjson.decode(text).instance ~= ARGV[6] then return {'lost'} end
end
local share = math.floor(redis.call('ZCARD', pool) / tonumber(ARGV[8]))
local size = math.max(1, math.min(tonumber(ARGV[7]), share))
local popped = redis.call('ZPOPMIN', pool, whole(size))
if #popped == 0 then return {'empty', found[1], found[2], '0'} end
local at, revision, expires_at = now(), step(), nil
if ARGV[9] ~= '' then expires_at = plus(at, ARGV[9]) end
local answer = {'ok', revision, found[2], whole(redis.call('ZCARD', pool))}
for from = 1, #popped, 1000 do
  local records, times = {}, {}
  for number = from, math.min(from + 999, #popped), 2 do
    local key, place = popped[number], whole(tonumber(popped[number + 1]))
    table.insert(records, key)
    table.insert(records, cjson.encode({place = place, used_at = at, caller = '',
      instance = ARGV[6], claimed = revision, expires_at = expires_at}))
    table.insert(times, at)
    table.insert(times, member(place, key))
    table.insert(answer, place)
    table.insert(answer, key)
  end
  redis.call('HSET', used, unpack(records))
  redis.call('ZADD', used_times, unpack(times))
end
return answer
