import { type RouteKey } from '../routes.js'
import { historyOperations } from './history-operations.js'
import { nodeOperations } from './node-operations.js'
import { type Operation } from './operation-definition.js'
import { stateOperations } from './state-operations.js'

/** Operations by route; the type check fails when a route has none. */
export const operations: Readonly<Record<Exclude<RouteKey, 'GET /v1/'>, Operation>> = {
  ...nodeOperations,
  ...stateOperations,
  ...historyOperations
}
