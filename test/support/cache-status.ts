/** The header in which varve says what became of a read. */
export const cacheStatusHeader = 'cache-status'

/** What it says most. */
export const memoryHitStatus = 'varve; hit; detail=memory'
export const redisHitStatus = 'varve; hit; detail=redis'
export const storedMissStatus = 'varve; fwd=uri-miss; fwd-status=200; stored'
