-- Where a key is. ARGV: the key. Answers with its record in JSON where it is used, and with nothing
-- where there is no such key.
local text = redis.call('HGET', used, ARGV[1])
if text then return {'used', text} end
if redis.call('ZSCORE', pool, ARGV[1]) then return {'available'} end
return {}
