import { failureReasons } from '../upstreams/node-failure.js'

// What varve, nodes and the gateways in front of them are known to answer: each a label of its own, as operators ask
// for them.
const known = [
  '200',
  '204',
  '206',
  '301',
  '302',
  '304',
  '307',
  '308',
  '400',
  '401',
  '403',
  '404',
  '405',
  '406',
  '408',
  '409',
  '410',
  '413',
  '414',
  '415',
  '416',
  '417',
  '422',
  '429',
  '431',
  '500',
  '501',
  '502',
  '503',
  '504'
] as const
const classes = ['2xx', '3xx', '4xx', '5xx'] as const
const knownSet = new Set<string>(known)

/**
 * The closed list of the `status` label: a status that is not known by itself counts as its class, and what is of no
 * class as `other`.
 */
export const statusLabels: readonly string[] = [...known, ...classes, 'other']

/** The same for what was asked of a node, which may also have failed to answer. */
export const upstreamStatusLabels: readonly string[] = [...statusLabels, ...failureReasons]

const failures = new Set<string>(failureReasons)

/**
 * The label of a status, or of the reason why there is none: whatever a node makes up, its series stay few (law 10).
 */
export function statusLabelOf (status: number | string): string {
  const text = String(status)
  if (knownSet.has(text) || failures.has(text)) return text
  return classes.find(name => /^[2-5][0-9]{2}$/.test(text) && name.startsWith(text.slice(0, 1))) ?? 'other'
}
