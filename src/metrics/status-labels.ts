import { failureReasons } from '../upstreams/upstream-failure.js'

// Statuses that varve, upstreams and their gateways use; each is a label of its own.
const knownStatuses = [
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
const knownSet = new Set<string>(knownStatuses)

/** Values of the `status` label: known statuses, the class of any other, and `other` outside 200 to 599. */
export const statusLabels: readonly string[] = [...knownStatuses, ...classes, 'other']

/** Values of the `status` label of upstream requests, which may fail without a status. */
export const upstreamStatusLabels: readonly string[] = [...statusLabels, ...failureReasons]

const failures = new Set<string>(failureReasons)

/**
 * Returns the label of a status or failure reason; statuses that an upstream invents add no series (law 10: nothing
 * grows without bound).
 */
export function statusLabelOf (status: number | string): string {
  const text = String(status)
  if (knownSet.has(text) || failures.has(text)) return text
  return classes.find(name => /^[2-5][0-9]{2}$/.test(text) && name.startsWith(text.slice(0, 1))) ?? 'other'
}
