-- Closes a lease where drawing ended, and keeps what was not drawn of it. ARGV: as for `refusal`, then
-- the instance, the lease, its end, where drawing ended, and the start and end of each range that was
-- not drawn.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next', 'returned')
local revision = found[1]
if not close(ARGV[7], ARGV[6], ARGV[9], ARGV[8]) then return {'left', revision, found[2]} end
local ranges = {}
for range_start, range_end in string.gmatch(found[3], '(%d+)-(%d+)') do
  table.insert(ranges, {range_start, range_end})
end
for argument = 10, #ARGV, 2 do
  local range_start, range_end = ARGV[argument], ARGV[argument + 1]
  if less(range_start, range_end) then table.insert(ranges, {range_start, range_end}) end
end
table.sort(ranges, function(a, b) return less(a[1], b[1]) end)
for number, range in ipairs(ranges) do
  ranges[number] = range[1] .. '-' .. range[2]
end
revision = plus(revision, '1')
redis.call('HSET', space, 'revision', revision, 'returned', table.concat(ranges, ','))
return {'ok', revision, found[2]}
