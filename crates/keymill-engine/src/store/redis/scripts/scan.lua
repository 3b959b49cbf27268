-- Reads some fields of a hash of the space. ARGV: the server that the cursor is of (or nothing), the hash,
-- the cursor, and about how many. Answers with the server, the next cursor, and names and values; with
-- nothing on another server: there a cursor leads elsewhere, and fields would be missed.
local unable = no_master()
if unable then return unable end
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
if ARGV[1] ~= '' and ARGV[1] ~= server then return {'', '0', {}} end
local found = redis.call('HSCAN', space .. ':' .. ARGV[2], ARGV[3], 'COUNT', ARGV[4])
return {server, found[1], found[2]}
