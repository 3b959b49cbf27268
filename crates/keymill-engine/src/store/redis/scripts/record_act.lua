-- Adds to the record of acts, and forgets the oldest. ARGV: the act in JSON, and how many are kept.
-- A count of acts fits a double.
local unable = no_master()
if unable then return unable end
local id = redis.call('HINCRBY', space, 'acts', 1)
local acts = space .. ':acts'
redis.call('ZADD', acts, id, string.format('%.0f', id) .. ' ' .. ARGV[1])
redis.call('ZREMRANGEBYRANK', acts, 0, -1 - tonumber(ARGV[2]))
return {'ok'}
