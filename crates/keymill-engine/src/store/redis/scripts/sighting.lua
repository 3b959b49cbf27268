-- Writes down how far an instance has seen a space. ARGV: the instance, what it has written down before
-- (or nothing), and what takes its place: marks in JSON, which are put together by the caller, because
-- their numbers may not fit a double.
local unable = no_master()
if unable then return unable end
if redis.call('EXISTS', space) == 0 then return 'unknown' end
local sightings = space .. ':sightings'
if (redis.call('HGET', sightings, ARGV[1]) or '') ~= ARGV[2] then return 'changed' end
redis.call('HSET', sightings, ARGV[1], ARGV[3])
return 'ok'
