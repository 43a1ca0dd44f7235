-- KEYS labels due; ARGV most. The time, and the models whose turn has come.
return {now, call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])}
