-- Moves a space beyond everything seen, into a new era. ARGV: the revision and the ordinal seen,
-- the length of an era, the instance and who it is in JSON; the lengths that the space was read with,
-- in JSON, and its definition and capacity with the growths made again that were lost; whether
-- what is passed over is recorded: of some spaces it is time, not ordinals; and the sightings that were
-- taken into account, each with its instance.
local unable = no_master()
if unable then return unable end
local found = redis.call('HMGET', space, 'revision', 'next', 'definition')
local revision, next_ordinal, capacity = found[1], found[2], ARGV[8]
if not revision then return {'unknown'} end
if table.concat(grown(found[3]), ',') ~= table.concat(cjson.decode(ARGV[6]), ',') then
  return {'outdated'}
end
-- One may have come since, which is higher.
local sightings = space .. ':sightings'
if redis.call('HLEN', sightings) ~= (#ARGV - 9) / 2 then return {'sighted'} end
for argument = 10, #ARGV, 2 do
  if redis.call('HGET', sightings, ARGV[argument]) ~= ARGV[argument + 1] then return {'sighted'} end
end
if less(revision, ARGV[1]) then revision = ARGV[1] end
local era = tonumber(ARGV[3])
local begin = (math.floor(tonumber(revision) / era) + 1) * era
if begin >= 2 ^ 53 then return redis.error_reply('ERR too many advances') end
revision = string.format('%.0f', begin)
local to = ARGV[2]
if less(capacity, to) then to = capacity end
if less(next_ordinal, to) then
  if ARGV[9] == '1' then record(revision, next_ordinal, to, 'advance', ARGV[4], ARGV[5]) end
  next_ordinal = to
end
redis.call('HSET', space, 'revision', revision, 'next', next_ordinal, 'base', next_ordinal,
  'returned', '', 'definition', ARGV[7], 'capacity', capacity)
-- What was available may be in use.
redis.call('UNLINK', space .. ':pool')
redis.call('UNLINK', sightings)
return with_space('ok')
