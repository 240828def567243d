import { type OwnOutcomeName, ownOutcomeNames } from '../../src/proxy/outcomes.js'

/** Reads the outcome of what varve answered by itself from its Cache-Status; undefined for any other answer. */
export function ownOutcomeIn (cacheStatus: string | null | undefined): OwnOutcomeName | undefined {
  const word = /^varve; detail=(\w+)$/.exec(cacheStatus ?? '')?.[1]
  return ownOutcomeNames.find(name => name === word)
}
