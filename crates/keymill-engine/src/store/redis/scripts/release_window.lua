-- Frees a worker, and closes the lease of its tenancy where its rest begins. ARGV: as for `refusal`,
-- then the instance, the worker, its row as the instance knows it, the lease, the ordinal of the
-- worker's first tick, and the start and end of the rest.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next')
local instance, lease, rest_start, workers = ARGV[6], ARGV[9], ARGV[11], space .. ':workers'
-- What lies below the start of a tenancy was never its own to free.
local start = redis.call('HGET', space .. ':lease:' .. lease, 'start')
if start and less(rest_start, start) then rest_start = start end
if redis.call('HGET', workers, ARGV[7]) == ARGV[8]
  and close(lease, instance, rest_start, ARGV[12]) then
  local unused_from = minus(rest_start, ARGV[10])
  redis.call('HSET', workers, ARGV[7], lease .. ' ' .. unused_from .. ' ' .. instance)
  found[1] = plus(found[1], '1')
  redis.call('HSET', space, 'revision', found[1])
end
return {'ok', found[1], found[2]}
