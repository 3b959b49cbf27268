-- Lists names that may not be listed yet, or not where they belong. ARGV: their keys.
local listed = space .. ':listed'
for _, key in ipairs(ARGV) do
  local text = redis.call('HGET', space .. ':names', key)
  if text then
    for _, list in ipairs({'alias', 'used', 'pool', 'digest', 'removed'}) do
      redis.call('ZREM', listed, list .. ':' .. key)
    end
    list_name(key, cjson.decode(text))
  end
end
return 'ok'
