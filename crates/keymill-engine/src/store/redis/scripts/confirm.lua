-- Looks at what a change has left on record. KEYS: the space, the hash that the evidence is in, if
-- there has to be any, and the hash that the second of its fields is in, if that is another. ARGV: as for `uncounted`, then the first and the last bound of the ordinals
-- whose skips are wanted (or nothing), and the fields that are evidence. Answers with these, empty
-- where there are none, and with the skips.
local refused = uncounted()
if refused then return refused end
local found, skips = {}, {}
if KEYS[2] then
  found = redis.call('HMGET', KEYS[2], unpack(ARGV, 6))
  for number = 1, #ARGV - 5 do found[number] = found[number] or '' end
end
if KEYS[3] then found[2] = redis.call('HGET', KEYS[3], ARGV[7]) or '' end
if ARGV[4] ~= '' then
  skips = redis.call('ZRANGEBYLEX', space .. ':skips', ARGV[4], ARGV[5])
end
return {'ok', redis.call('HGETALL', space), found, skips}
