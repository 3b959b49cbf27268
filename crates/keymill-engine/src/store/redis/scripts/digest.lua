-- Finds or makes the keys of inputs. ARGV: as for `refusal`, then of how many generations the last one's
-- keys are the candidates, and each input in hex, with how many candidates it has, and these. Answers
-- with the key of each (or nothing), and which candidate it was, if it was made just now, counted from 0.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next', 'sealed', 'definition')
-- After a rollback, only keys of a new length cannot have been given before.
if tonumber(ARGV[6]) ~= 1 + #grown(found[4]) then return {'outdated'} end
local names, digests = space .. ':names', space .. ':digests'
local answer, made = {'ok', found[1], found[2]}, false
local argument = 7
while argument <= #ARGV do
  local input, count = ARGV[argument], tonumber(ARGV[argument + 1])
  local key, which = redis.call('HGET', digests, input), ''
  if not key then
    -- Nothing was made before it either.
    if found[3] == '1' then return {'sealed'} end
    for number = 1, count do
      local candidate = ARGV[argument + 1 + number]
      if redis.call('HEXISTS', names, candidate) == 0 then
        local name = {purpose = 'digest', owner = '', created_at = now()}
        redis.call('HSET', names, candidate, cjson.encode(name))
        list_name(candidate, name)
        redis.call('ZADD', space .. ':unplaced', 0, candidate)
        redis.call('HSET', digests, input, candidate)
        key, which, made = candidate, whole(number - 1), true
        break
      end
    end
  end
  table.insert(answer, key or '')
  table.insert(answer, which)
  argument = argument + 2 + count
end
if made then answer[2] = step() end
return answer
