import { type OwnOutcomeName, ownOutcomeNames } from '../../src/proxy/outcomes.js'

/** Returns the outcome of varve's own response by its Cache-Status; undefined for other responses. */
export function ownOutcomeIn (cacheStatus: string | null | undefined): OwnOutcomeName | undefined {
  const word = /^varve; detail=(\w+)$/.exec(cacheStatus ?? '')?.[1]
  return ownOutcomeNames.find(name => name === word)
}
