-- Who this server is, and which course of its history it is on. KEYS[1] is the store. ARGV: the
-- stamp of a store that is new, or nothing where none is to be made. Answers with the stamp (or
-- nothing), the timeline, whether there ever was a replica, whether the stamp was made just now, and
-- the replication ID.
--
-- A replica that is promoted, and a server that starts again, has another replication ID. The
-- first to meet one notes it with the time, as the timeline: of two servers that both take
-- writes, the one that was cut off stays on the older one.
local time = redis.call('TIME')
local millis = time[1] .. string.format('%03d', math.floor(tonumber(time[2]) / 1000))
local info = redis.call('INFO', 'replication')
local history = string.match(info, 'master_replid:(%x+)')
local replicas = string.match(info, 'connected_slaves:(%d+)')
local made = '0'
if redis.call('HEXISTS', KEYS[1], 'identity') == 0 then
  if ARGV[1] == '' then return {'', '0', '0', '0', history} end
  redis.call('HSET', KEYS[1], 'identity', ARGV[1], 'created_at', millis)
  made = '1'
end
local found = redis.call('HMGET', KEYS[1], 'identity', 'history', 'timeline', 'replicated')
local timeline = found[3] or '0'
if found[2] ~= history then
  -- The clock may have been set back since.
  timeline = string.format('%.0f', math.max(tonumber(millis), tonumber(timeline) + 1))
  redis.call('HSET', KEYS[1], 'history', history, 'timeline', timeline)
end
if replicas ~= '0' and found[4] ~= '1' then
  redis.call('HSET', KEYS[1], 'replicated', '1')
  found[4] = '1'
end
return {found[1], timeline, found[4] or '0', made, history}
