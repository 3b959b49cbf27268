-- Removes a name, if it is the owner's. ARGV: as for `refusal`, then the key and the owner. Answers
-- with the name as it then is, in JSON; with nothing where there is none.
local refused = refusal()
if refused then return refused end
local text = redis.call('HGET', space .. ':names', ARGV[6])
local known = text and cjson.decode(text)
if not known or known.removed_at then return {'ok'} end
if known.purpose == 'alias' and known.owner == ARGV[7] then
  redis.call('ZREM', space .. ':listed', list_of(known) .. ':' .. ARGV[6])
  known.removed_at = now()
  text = cjson.encode(known)
  redis.call('HSET', space .. ':names', ARGV[6], text)
  list_name(ARGV[6], known)
  redis.call('HSET', space, 'revision', plus(redis.call('HGET', space, 'revision'), '1'))
end
return {'ok', text}
