-- KEYS labels due; ARGV most. The models whose turn has come.
return call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
