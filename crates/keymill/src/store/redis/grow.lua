-- Appends a generation to a space. ARGV: as for `refusal`, then the definition that has it, in
-- JSON, and the capacity of all generations.
local found = redis.call('HMGET', space, 'definition', 'capacity', 'revision', 'sealed')
-- What was seen counts only up to the capacity: a growth may have been lost, and only growing again
-- makes room to advance beyond what was seen of it.
local seen = ARGV[3]
if found[2] and less(found[2], seen) then seen = found[2] end
local refused = refusal(seen)
if refused then return refused end
if found[4] == '1' then return {'sealed'} end
local known, wanted = grown(found[1]), grown(ARGV[6])
for number, length in ipairs(known) do
  if wanted[number] ~= length then return {'outdated'} end
end
if #wanted > #known + 1 then return {'outdated'} end
if #wanted > #known then
  redis.call('HSET', space, 'definition', ARGV[6], 'capacity', ARGV[7],
    'revision', plus(found[3], '1'))
end
return with_space('ok')
