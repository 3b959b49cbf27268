-- Makes a space, or returns the one that has the name. ARGV: as for `refusal`, then the names
-- and values of its fields.
if redis.call('EXISTS', space) == 1 then
  return refusal() or with_space('exists')
end
if ARGV[2] ~= '0' then return {'unknown'} end
for field = 6, #ARGV, 2 do
  redis.call('HSET', space, ARGV[field], ARGV[field + 1])
end
redis.call('HSET', space, 'store', string.match(ARGV[1], '^%S*'), 'revision', '1', 'returned', '', 'sealed', '0',
  'created_at', now())
return with_space('made')
