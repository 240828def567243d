import { type Address } from './address.js'
import { accountNotFound } from './problem.js'
import { type RequestContext } from './request-context.js'
import { resourcesAt } from './state.js'

/** Throws for an address without account and resources, unless the node treats every address as an account. */
export function requireAccount ({ snapshot, settings }: RequestContext, address: Address, version: bigint): void {
  if (settings.statelessAccounts || resourcesAt(snapshot.ledger, address, version).length > 0) return
  throw accountNotFound(address, version)
}
