-- What scripts on the keys of a space begin with, after `common.lua`.
--
-- `…:pool` has the keys that are available, by their places: numbers that only rise, and are exact
-- in a double. `…:used` has the record of every used key in JSON; `…:used_times` has place and key
-- of each, by the time of its use.
local pool, used, used_times = space .. ':pool', space .. ':used', space .. ':used_times'

local function whole(number)
  return string.format('%.0f', number)
end

-- The first of so many new places.
local function new_places(count)
  return redis.call('INCRBY', space .. ':places', count) - count + 1
end

local function member(place, key)
  return padded(place) .. ':' .. key
end

-- Adds a change to the revision of the space.
local function step()
  local revision = plus(redis.call('HGET', space, 'revision'), '1')
  redis.call('HSET', space, 'revision', revision)
  return revision
end
