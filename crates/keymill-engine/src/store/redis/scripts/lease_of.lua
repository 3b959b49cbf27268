-- The lease under which an ordinal was, or may have been, handed out. ARGV: the ordinal.
--
-- Nearly always one of the first; no request may keep the server for long.
local ordinal = ARGV[1]
local from, batch = 0, 64
while true do
  local starts = redis.call('ZREVRANGEBYLEX', space .. ':starts', '[' .. padded(ordinal) .. ':~',
    '-', 'LIMIT', from, batch)
  for _, member in ipairs(starts) do
    local key = space .. ':lease:' .. string.match(member, ':(%d+)$')
    local found = redis.call('HMGET', key, 'closed_at_ordinal', 'end', 'purpose', 'start')
    if less(ordinal, found[1] or found[2]) then return redis.call('HGETALL', key) end
    -- Windows do not overlap: where the last one that starts before it has ended, all have. One that
    -- was given back whole is none.
    if found[3] == 'window' and found[1] ~= found[4] then return {} end
  end
  if #starts < batch or from > 20000 then return {} end
  from = from + batch
end
