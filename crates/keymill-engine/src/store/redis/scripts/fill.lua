-- Grants ordinals and puts their keys into the pool. ARGV: as for `refusal`, then the revision that
-- the keys were made for, where the ordinals end, the instance and who it is in JSON, and the keys.
-- Answers with how many are available.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next')
-- A name may have taken one of the keys since, or another fill all of them.
if found[1] ~= ARGV[6] then return {'changed'} end
local lease = step()
redis.call('HSET', space, 'next', ARGV[7])
record(lease, found[2], ARGV[7], 'fill', ARGV[8], ARGV[9])
close(lease, ARGV[8])
local place = new_places(#ARGV - 9)
for from = 10, #ARGV, 500 do
  local added = {}
  for argument = from, math.min(from + 499, #ARGV) do
    table.insert(added, whole(place + argument - 10))
    table.insert(added, ARGV[argument])
  end
  redis.call('ZADD', pool, unpack(added))
end
return {'ok', whole(redis.call('ZCARD', pool))}
