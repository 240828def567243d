/** Header with which varve reports its handling of a read. */
export const cacheStatusHeader = 'cache-status'

/** Most frequent value of the header. */
export const memoryHitStatus = 'varve; hit; detail=memory'
export const redisHitStatus = 'varve; hit; detail=redis'
export const storedMissStatus = 'varve; fwd=uri-miss; fwd-status=200; stored'
