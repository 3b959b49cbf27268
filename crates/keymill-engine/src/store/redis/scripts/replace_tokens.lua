-- Replaces the token list. ARGV: as for `refusal`, then the revision that it must be at, the one that it
-- gets, and its text. A list that is below the floor is refused, unless it gets a revision beyond the era of the
-- floor; with what was found.
local unable = no_master()
if unable then return unable end
local found = redis.call('HMGET', space, 'store', 'revision')
local store = string.match(ARGV[1], '^%S*')
local revision = found[2] or '0'
local strayed = ARGV[4] == '0' and less(revision, ARGV[5])
local is_below = (less(revision, ARGV[2]) or strayed) and less(ARGV[7], ARGV[5])
if is_below or (found[1] and found[1] ~= store) then
  return {'below', found[1] or store, revision}
end
if revision ~= ARGV[6] then return {'changed'} end
redis.call('HSET', space, 'store', store, 'revision', ARGV[7], 'text', ARGV[8])
return {'ok'}
