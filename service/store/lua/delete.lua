-- KEYS meta, snapshots, states, then everything else of the incarnation, the mark of its deletion last;
-- ARGV incarnation, what chunk keys begin with, life of the mark in ms.
-- Chunks of a snapshot that was never published are not found here, nor pieces of a state that no entry refers to; they
-- expire by themselves.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
for _, version in ipairs(redis.call('HKEYS', KEYS[2])) do redis.call('UNLINK', ARGV[2] .. version) end
for _, digest in ipairs(redis.call('HVALS', KEYS[3])) do
  redis.call('UNLINK', string.sub(KEYS[3], 1, -2) .. ':' .. digest)
end
redis.call('UNLINK', unpack(KEYS))
redis.call('SET', KEYS[#KEYS], 1, 'PX', ARGV[3])
notify(ARGV[1], 0)
return 1
