-- Looks at the workers of a space, and changes nothing. ARGV: as for `refusal`, then the instance, its
-- last lease (or nothing) with the start and end of its era, the lease that it holds (or nothing),
-- and the worker to look at (or nothing, for all). Answers with the time, whether the lease that it
-- holds is open, how much follows of rows, each as a worker and its row, and the fields of the space.
local refused = refusal()
if refused then return refused end
if is_lost(ARGV[6], ARGV[7], ARGV[8], ARGV[9]) then return {'lost'} end
local held = redis.call('HMGET', space .. ':lease:' .. ARGV[10], 'instance', 'closed_at')
local is_open = held[1] == ARGV[6] and not held[2]
local workers, rows = space .. ':workers', {}
if ARGV[11] == '' then
  rows = redis.call('HGETALL', workers)
else
  local row = redis.call('HGET', workers, ARGV[11])
  if row then rows = {ARGV[11], row} end
end
local answer = {'seen', now(), is_open and '1' or '0', tostring(#rows)}
for _, text in ipairs(rows) do
  table.insert(answer, text)
end
for _, text in ipairs(redis.call('HGETALL', space)) do
  table.insert(answer, text)
end
return answer
