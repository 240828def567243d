/** What is done at Redis: the closed list of metric labels. */
export const redisOperations = [
  'get',
  'find',
  'set',
  'index',
  'delete',
  'control',
  'publish',
  'limit',
  'probe',
  'connect'
] as const

/** One of the closed list. */
export type RedisOperation = typeof redisOperations[number]
