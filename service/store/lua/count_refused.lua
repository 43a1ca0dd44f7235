-- KEYS meta; ARGV incarnation, how many predictions have expired because the model refused the label that was due.
if call('HGET', KEYS[1], 'incarnation') == ARGV[1] then call('HINCRBY', KEYS[1], 'expired', ARGV[2]) end
return false
