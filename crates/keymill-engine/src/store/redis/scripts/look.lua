-- Looks at a space and its pool, and changes nothing. ARGV: as for `refusal`. Answers with the
-- fields of the space, and how many keys are available among them.
local refused = refusal()
if refused then return refused end
local answer = with_space('seen')
table.insert(answer, 'available')
table.insert(answer, whole(redis.call('ZCARD', pool)))
return answer
