-- Writes a window down that was decided on what `workers.lua` has seen. ARGV: as for `refusal`, then
-- the instance, its last lease (or nothing) with the start and end of its era, the revision that was
-- seen, the revision and next that the space moves to, the worker and its row, the lease, the start
-- and end of the ordinals that are added to it, and who the instance is in JSON.
local refused = refusal()
if refused then return refused end
if is_lost(ARGV[6], ARGV[7], ARGV[8], ARGV[9]) then return {'lost'} end
-- Another may have got the same worker since: that moved the revision, as every change does.
if redis.call('HGET', space, 'revision') ~= ARGV[10] then return {'changed'} end
local revision, lease = ARGV[11], ARGV[15]
redis.call('HSET', space, 'revision', revision, 'next', ARGV[12])
redis.call('HSET', space .. ':workers', ARGV[13], ARGV[14])
if lease == revision then
  record(lease, ARGV[16], ARGV[17], 'window', ARGV[6], ARGV[18])
else
  redis.call('HSET', space .. ':lease:' .. lease, 'end', ARGV[17])
end
return {'ok'}
