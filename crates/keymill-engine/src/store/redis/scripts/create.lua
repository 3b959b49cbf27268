-- Makes a space, or returns the one that has the name. ARGV: as for `refusal`, then the names
-- and values of its fields.
local refused = refusal()
if not refused then return with_space('exists') end
if refused[1] ~= 'unknown' or ARGV[2] ~= '0' then return refused end
for field = 6, #ARGV, 2 do
  redis.call('HSET', space, ARGV[field], ARGV[field + 1])
end
redis.call('HSET', space, 'store', string.match(ARGV[1], '^%S*'), 'revision', '1', 'returned', '', 'sealed', '0',
  'created_at', now())
return with_space('made')
