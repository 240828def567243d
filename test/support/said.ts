/** The header in which varve says what became of a read. */
export const status = 'cache-status'

/** What it says most. */
export const fromMemory = 'varve; hit; detail=memory'
export const fromRedis = 'varve; hit; detail=redis'
export const stored = 'varve; fwd=uri-miss; fwd-status=200; stored'
