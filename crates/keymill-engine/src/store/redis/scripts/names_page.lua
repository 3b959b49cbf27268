-- Lists names of one list: of a purpose, or those that were removed. ARGV: whether the list may be
-- incomplete, its first and last bound, and how many at the most. Answers with each key and its record
-- in JSON.
local names, listed = space .. ':names', space .. ':listed'
-- A version of keymill that does not know the list may have made names.
if ARGV[1] == '0' and redis.call('HLEN', names) ~= redis.call('ZCARD', listed) then
  return {'incomplete'}
end
local answer = {'ok'}
for _, member in ipairs(redis.call('ZRANGEBYLEX', listed, ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])) do
  local key = string.match(member, '^%a+:(.*)$')
  table.insert(answer, key)
  table.insert(answer, redis.call('HGET', names, key) or '')
end
return answer
