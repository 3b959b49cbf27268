-- Notes that an instance lives, or that it has stopped. KEYS: the instance, and all of them by
-- age. ARGV: its place among them, its address (or nothing), whether it stops, and the names and
-- values of its other fields.
local time = redis.call('TIME')
local millis = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
for field = 4, #ARGV, 2 do
  redis.call('HSETNX', KEYS[1], ARGV[field], ARGV[field + 1])
end
redis.call('HSET', KEYS[1], 'seen_at', millis)
if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'address', ARGV[2]) end
if ARGV[3] == '1' then
  redis.call('HSET', KEYS[1], 'stopped_at', millis)
else
  redis.call('HDEL', KEYS[1], 'stopped_at')
end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 'ok'
