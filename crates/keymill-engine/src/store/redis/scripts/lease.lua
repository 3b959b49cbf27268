-- Grants a lease. ARGV: as for `refusal`, then the instance and who it is in JSON, the most
-- ordinals, the share, the last lease (or nothing) with the start and end of its era, and the
-- leases that are spent.
local refused = refusal()
if refused then return refused end
local instance, holder = ARGV[6], ARGV[7]
if is_lost(instance, ARGV[10], ARGV[11], ARGV[12]) then return {'lost'} end
local found = redis.call('HMGET', space, 'revision', 'next', 'capacity', 'returned', 'sealed')
local revision, next_ordinal, capacity, returned = found[1], found[2], found[3], found[4]
for spent = 13, #ARGV do
  close(ARGV[spent], instance)
end
if found[5] == '1' then return {'sealed'} end

local left = minus(capacity, next_ordinal)
for range_start, range_end in string.gmatch(returned, '(%d+)-(%d+)') do
  left = plus(left, minus(range_end, range_start))
end
if left == '0' then
  local held = '0'
  for _, open in ipairs(redis.call('HVALS', space .. ':open')) do
    local other, count = string.match(open, '^(%S+) (%d+)$')
    if other ~= instance then held = plus(held, count) end
  end
  return {'exhausted', held}
end

-- Beyond 2^53 the share is rounded, and then larger than any lease.
local share = math.floor(tonumber(left) / tonumber(ARGV[9]))
local size = string.format('%.0f', math.max(1, math.min(tonumber(ARGV[8]), share)))
local range_start, range_end, rest = string.match(returned, '^(%d+)-(%d+),?(.*)$')
local grant_end
if range_start then
  grant_end = plus(range_start, size)
  if less(range_end, grant_end) then grant_end = range_end end
  returned = rest
  if grant_end ~= range_end then
    returned = grant_end .. '-' .. range_end .. (rest == '' and '' or ',' .. rest)
  end
else
  range_start = next_ordinal
  grant_end = plus(next_ordinal, size)
  if less(capacity, grant_end) then grant_end = capacity end
  next_ordinal = grant_end
end
revision = plus(revision, '1')
redis.call('HSET', space, 'revision', revision, 'next', next_ordinal, 'returned', returned)
record(revision, range_start, grant_end, 'lease', instance, holder)
left = minus(left, minus(grant_end, range_start))
return {'ok', revision, range_start, grant_end, next_ordinal, left}
