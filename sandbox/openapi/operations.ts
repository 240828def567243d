import { type RouteKey } from '../routes.js'
import { historyOperations } from './history-operations.js'
import { nodeOperations } from './node-operations.js'
import { type Operation } from './operation.js'
import { stateOperations } from './state-operations.js'

/** What the document says of each route: one that is left out does not compile. */
export const operations: Readonly<Record<Exclude<RouteKey, 'GET /v1/'>, Operation>> = {
  ...nodeOperations,
  ...stateOperations,
  ...historyOperations
}
