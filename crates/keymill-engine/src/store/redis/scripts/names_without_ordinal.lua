-- Lists names without an ordinal. ARGV: as for `uncounted`, then the first bound, and how many at the
-- most.
local refused = uncounted()
if refused then return refused end
local names = redis.call('ZRANGEBYLEX', space .. ':unplaced', ARGV[4], '+', 'LIMIT', 0, ARGV[5])
return {'ok', redis.call('HGETALL', space), {}, names}
