-- Takes keys by name. ARGV: as for `refusal`, then the purpose, the owner, among how many
-- generations ordinals were looked for, and each key with the ordinal that it could be generated
-- from (or nothing). Answers with what became of each.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'revision', 'next', 'sealed', 'definition')
if found[3] == '1' then return {'sealed'} end
-- A name that could not be generated then may be a key now.
if tonumber(ARGV[8]) ~= 1 + #grown(found[4]) then return {'outdated'} end
local purpose, owner = ARGV[6], ARGV[7]
local answer, made = {'ok', found[1], found[2]}, false
for argument = 9, #ARGV, 2 do
  local key, ordinal = ARGV[argument], ARGV[argument + 1]
  local text = redis.call('HGET', space .. ':names', key)
  local known = text and cjson.decode(text)
  -- Stores with tables keep keys in use as mere ordinals, and so they come from there.
  if not known and ordinal ~= '' and redis.call('HEXISTS', space .. ':in_use', ordinal) == 1 then
    known = {purpose = 'used', owner = ''}
  end
  local outcome = 'made'
  if known and not known.removed_at then
    outcome = (known.owner == owner and known.purpose == purpose) and 'mine' or 'taken'
  elseif not known and ordinal ~= '' and less(ordinal, found[2]) then
    outcome = 'taken'
  end
  if outcome == 'made' then
    -- One that was removed keeps the place that it was made with.
    if known then ordinal = known.ordinal or '' end
    local name = {purpose = purpose, owner = owner, created_at = now()}
    if ordinal ~= '' then
      name.ordinal = ordinal
      redis.call('ZADD', space .. ':skips', 0, padded(ordinal))
    else
      redis.call('ZADD', space .. ':unplaced', 0, key)
    end
    redis.call('HSET', space .. ':names', key, cjson.encode(name))
    list_name(key, name, known)
    if purpose == 'pool' then redis.call('ZADD', pool, whole(new_places(1)), key) end
    made = true
  end
  table.insert(answer, outcome)
end
if made then
  answer[2] = plus(found[1], '1')
  redis.call('HSET', space, 'revision', answer[2])
end
return answer
