-- Closes a lease where its rest begins, and keeps the rest. ARGV: as for `refusal`, then the
-- instance, the lease, and the start and end of the rest.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next', 'returned')
local revision = found[1]
if close(ARGV[7], ARGV[6], ARGV[8], ARGV[9]) then
  local ranges = {}
  for range_start, range_end in string.gmatch(found[3], '(%d+)-(%d+)') do
    table.insert(ranges, {range_start, range_end})
  end
  if ARGV[8] ~= ARGV[9] then table.insert(ranges, {ARGV[8], ARGV[9]}) end
  table.sort(ranges, function(a, b) return less(a[1], b[1]) end)
  for number, range in ipairs(ranges) do
    ranges[number] = range[1] .. '-' .. range[2]
  end
  revision = plus(revision, '1')
  redis.call('HSET', space, 'revision', revision, 'returned', table.concat(ranges, ','))
end
return {'ok', revision, found[2]}
