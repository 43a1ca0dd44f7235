-- KEYS meta; ARGV incarnation, how many predictions have expired because the label that was due was not learned.
if call('HGET', KEYS[1], 'incarnation') == ARGV[1] then call('HINCRBY', KEYS[1], 'expired', ARGV[2]) end
return false
