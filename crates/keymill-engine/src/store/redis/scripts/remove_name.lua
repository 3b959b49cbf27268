-- Removes a name, if it is the owner's. ARGV: as for `refusal`, then the key and the owner. Answers
-- with the mark of the space, and with the name as it then is, in JSON; without one where there is none.
local refused = refusal()
if refused then return refused end
local text = redis.call('HGET', space .. ':names', ARGV[6])
local known = text and cjson.decode(text)
local found = redis.call('HMGET', space, 'revision', 'next')
if not known or known.removed_at then return {'ok', found[1], found[2]} end
if known.purpose == 'alias' and known.owner == ARGV[7] then
  redis.call('ZREM', space .. ':listed', list_of(known) .. ':' .. ARGV[6])
  known.removed_at = now()
  text = cjson.encode(known)
  redis.call('HSET', space .. ':names', ARGV[6], text)
  list_name(ARGV[6], known)
  found[1] = plus(found[1], '1')
  redis.call('HSET', space, 'revision', found[1])
end
return {'ok', found[1], found[2], text}
