import { type OwnOutcomeName, ownOutcomeNames } from '../../src/proxy/outcomes.js'

/** Header with which varve reports its handling of a read. */
export const cacheStatusHeader = 'cache-status'

/** Most frequent value of the header. */
export const memoryHitStatus = 'varve; hit; detail=memory'
export const redisHitStatus = 'varve; hit; detail=redis'
export const storedMissStatus = 'varve; fwd=uri-miss; fwd-status=200; stored'

/** Returns the outcome of varve's own response by its Cache-Status; undefined for other responses. */
export function ownOutcomeIn (cacheStatus: string | null | undefined): OwnOutcomeName | undefined {
  const word = /^varve; detail=(\w+)$/.exec(cacheStatus ?? '')?.[1]
  return ownOutcomeNames.find(name => name === word)
}
