-- Reads the token list, where the answer counts: on a master, and on the course of history that the caller
-- has met. ARGV: the replication ID that was met. Answers with the store, the revision and the text.
local unable = no_master()
if unable then return unable end
local history = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if history ~= ARGV[1] then return {'moved'} end
local found = redis.call('HMGET', space, 'store', 'revision', 'text')
return {'seen', found[1] or '', found[2] or '0', found[3] or ''}
