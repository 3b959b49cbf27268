-- Sets a field of a space. ARGV: as for `refusal`, then the field, its value, and whether setting
-- it to what it is changes nothing.
local refused = refusal()
if refused then return refused end
if ARGV[8] == '0' or redis.call('HGET', space, ARGV[6]) ~= ARGV[7] then
  local revision = plus(redis.call('HGET', space, 'revision'), '1')
  redis.call('HSET', space, ARGV[6], ARGV[7], 'revision', revision)
end
return with_space('ok')
