-- What scripts begin with that look once more at a space that was changed, after `common.lua`. They
-- change nothing, and answer with their status, the fields of the space, and two lists of their own.

-- Refuses to look where the answer would not count: on a server that follows another, on another
-- course of history than the caller has met, and where the space lies below what the change has
-- reached. ARGV begins with: the replication ID that was met, and the revision and next to be reached.
local function uncounted()
  local unable = no_master()
  if unable then return unable end
  local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
  if history ~= ARGV[1] then return {'moved', {}, {}, {}} end
  local found = redis.call('HMGET', space, 'revision', 'next')
  if not found[1] then return {'unknown', {}, {}, {}} end
  if less(found[1], ARGV[2]) or less(found[2], ARGV[3]) then
    return {'below', redis.call('HGETALL', space), {}, {}}
  end
  return nil
end
