-- Begins an import, or ends it. ARGV: as for `refusal`, or five times nothing where it begins; what is
-- imported, whether it ends, the length of an era, and the names and values of the space's fields. One
-- that is importing something else, or was opened, is left alone.
local importing, ends = ARGV[6], ARGV[7] == '1'
local refused
if ends then refused = refusal() else refused = no_master() end
if refused then return refused end
local found = redis.call('HMGET', space, 'sealed', 'importing', 'revision', 'next', 'base', 'capacity',
  'definition')
local is_known = found[3] ~= false
if is_known and (found[1] ~= '1' or found[2] ~= importing) then
  return with_space(ends and 'outdated' or 'exists')
end
local function era_of(number)
  return math.floor(tonumber(number) / tonumber(ARGV[8]))
end
local fields = {}
for field = 9, #ARGV, 2 do fields[ARGV[field]] = ARGV[field + 1] end
if is_known then
  -- There was an advance between two exports: what was available before it may be in use.
  if era_of(found[3]) < era_of(fields.revision) then redis.call('UNLINK', space .. ':pool') end
  -- There was one here: what was returned before it may be in use.
  if era_of(found[3]) > era_of(fields.revision) then fields.returned = '' end
  -- What was seen of it may not fall: its settings were changed, it was advanced, or a later export has
  -- begun since.
  local seen = {revision = found[3], next = found[4], base = found[5], capacity = found[6]}
  for name, value in pairs(seen) do
    if less(fields[name], value) then fields[name] = value end
  end
  if #grown(found[7]) > #grown(fields.definition) then fields.definition = found[7] end
end
for name, value in pairs(fields) do redis.call('HSET', space, name, value) end
if ends then
  redis.call('HSET', space, 'revision', plus(fields.revision, '1'), 'sealed', '0')
  redis.call('HDEL', space, 'importing')
  return with_space('ok')
end
redis.call('HSET', space, 'sealed', '1', 'importing', importing)
return with_space('made')
