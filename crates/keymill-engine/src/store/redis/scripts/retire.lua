-- Retires a key. ARGV: as for `refusal`, then the key, and since when and by whom it may be in use,
-- where no record tells, and the id that other stores would have it under. Answers with the mark of
-- the space, and with its record in JSON.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next')
local key = ARGV[6]
local text = redis.call('HGET', used, key)
local known = text and cjson.decode(text)
if known and known.retired_at then return {'ok', found[1], found[2], text} end
if not known then
  -- One that came back to the pool meanwhile does not stay there.
  redis.call('ZREM', pool, key)
  known = {place = whole(new_places(1)), used_at = ARGV[7], caller = '', instance = ARGV[8],
    id = ARGV[9]}
  redis.call('ZADD', used_times, known.used_at, member(known.place, key))
end
known.retired_at = now()
text = cjson.encode(known)
redis.call('HSET', used, key, text)
return {'ok', step(), found[2], text}
