-- Makes an instance known that held leases in another store, unless it is. KEYS: the instance, and all
-- of them by age. ARGV: its place among them, and the names and values of its fields.
if redis.call('EXISTS', KEYS[1]) == 1 then return {'known'} end
for field = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[field], ARGV[field + 1])
end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return {'ok'}
