/** Closed list of Redis operations: label `operation` of the Redis metrics. */
export const redisOperations = [
  'get',
  'find',
  'set',
  'index',
  'delete',
  'control',
  'publish',
  'limit',
  'lease',
  'tail',
  'probe',
  'connect'
] as const

/** Operation on Redis. */
export type RedisOperation = typeof redisOperations[number]
