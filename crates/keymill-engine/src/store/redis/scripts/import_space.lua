-- Begins an import, or ends it. ARGV: what is imported, whether it ends, the length of an era, and the
-- names and values of the space's fields. One that is importing something else, or was opened, is left
-- alone.
local unable = no_master()
if unable then return unable end
local importing, ends = ARGV[1], ARGV[2] == '1'
local found = redis.call('HMGET', space, 'sealed', 'importing', 'revision', 'next', 'base')
local is_known = found[3] ~= false
if is_known and (found[1] ~= '1' or found[2] ~= importing) then
  return with_space(ends and 'outdated' or 'exists')
end
if ends and not is_known then return {'unknown'} end
-- What was seen of it may not fall: its settings were changed, or a later export has begun since.
local seen = {revision = found[3], next = found[4], base = found[5]}
for field = 4, #ARGV, 2 do
  local name, value = ARGV[field], ARGV[field + 1]
  if seen[name] and less(value, seen[name]) then value = seen[name] end
  redis.call('HSET', space, name, value)
end
local revision = redis.call('HGET', space, 'revision')
local function era_of(number)
  return math.floor(tonumber(number) / tonumber(ARGV[3]))
end
-- There was an advance between two exports: what was available before it may be in use.
if is_known and era_of(found[3]) ~= era_of(revision) then redis.call('UNLINK', space .. ':pool') end
if ends then
  redis.call('HSET', space, 'revision', plus(revision, '1'), 'sealed', '0')
  redis.call('HDEL', space, 'importing')
  return with_space('ok')
end
redis.call('HSET', space, 'sealed', '1', 'importing', importing)
return with_space('made')
