-- Appends a generation to a space. ARGV: as for `refusal`, then the definition that has it, in
-- JSON, and the capacity of all generations.
local refused = refusal()
if refused then return refused end
local found = redis.call('HMGET', space, 'definition', 'revision', 'sealed')
if found[3] == '1' then return {'sealed'} end
local known, wanted = grown(found[1]), grown(ARGV[6])
for number, length in ipairs(known) do
  if wanted[number] ~= length then return {'outdated'} end
end
if #wanted > #known + 1 then return {'outdated'} end
if #wanted > #known then
  redis.call('HSET', space, 'definition', ARGV[6], 'capacity', ARGV[7],
    'revision', plus(found[2], '1'))
end
return with_space('ok')
