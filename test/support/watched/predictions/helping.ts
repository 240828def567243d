import { endpointNames } from '../../../../src/api/endpoints.js'
import { outcomeNames } from '../../../../src/proxy/outcomes.js'
import { each, type Foretold, type Known, one, scaled } from '../known.js'
import { timeOf } from '../quantiles.js'
import { type Sent } from '../sent.js'

const isHit = ({ outcome }: Sent): boolean => outcome.startsWith('hit_')
const isSaved = (sent: Sent): boolean => isHit(sent) || sent.outcome === 'collapsed'
const isCacheable = (sent: Sent): boolean => isSaved(sent) || sent.outcome === 'miss'
const isOwnError = ({ outcome }: Sent): boolean => ['gone', 'rejected', 'limited', 'unavailable'].includes(outcome)
const endpoints = [...endpointNames, 'other'] as const
// Of no other endpoint anything was read that can be kept.
const read = ['table_item', 'account_modules', 'account_events', 'block_by_version', 'estimate_gas_price'] as const
const statuses = (
  k: Known,
  is: (sent: Sent) => boolean = () => true
): string[] => [...new Set(k.sent.filter(is).map(({ status }) => String(status)))]

/** What every query of this dashboard is. */
export const helping: Record<string, (k: Known) => Foretold[]> = {
  'Hit rate/A': k => one(k.count(isHit) / k.count(isCacheable)),
  'Reads saved/A': k => one(k.count(isSaved)),
  'Requests/A': k => one(k.count()),
  'Asked of nodes/A': k => one(k.asked('all')),
  'Answered 5xx/A': k => one(k.count(({ status }) => status >= 500) / k.count()),
  'Answered 429/A': k => one(k.count(({ status }) => status === 429)),
  'Requests by outcome/A': k =>
    each('outcome', outcomeNames, of => k.count(({ outcome }) => outcome === of) / k.seconds),
  'Hit rate by endpoint/A': k =>
    each(
      'endpoint',
      read,
      of =>
        k.count(sent => sent.endpoint === of && isHit(sent)) /
        k.count(sent => sent.endpoint === of && isCacheable(sent))
    ),
  'Saved, and asked of nodes/A': k => one(k.count(isSaved) / k.seconds),
  'Saved, and asked of nodes/B': k => one(scaled(k.asked('all'), 1 / k.seconds)),
  'Requests by endpoint/A': k =>
    each('endpoint', endpoints, of => k.count(({ endpoint }) => endpoint === of) / k.seconds),
  'Asked of nodes, by endpoint/A': k =>
    each('endpoint', [...read, 'other'], of => scaled(k.asked('all', of), 1 / k.seconds)),
  'Median by outcome/A': k => each('outcome', outcomeNames, of => timeOf(0.5, k, ({ outcome }) => outcome === of)),
  'p99 by outcome/A': k => each('outcome', outcomeNames, of => timeOf(0.99, k, ({ outcome }) => outcome === of)),
  'p99 by endpoint/A': k => each('endpoint', endpoints, of => timeOf(0.99, k, ({ endpoint }) => endpoint === of)),
  'Answers by status/A': k =>
    each('status', statuses(k), of => k.count(({ status }) => String(status) === of) / k.seconds),
  'Errors of varve, by status/A': k =>
    each(
      'status',
      statuses(k, isOwnError),
      of => k.count(sent => isOwnError(sent) && String(sent.status) === of) / k.seconds
    ),
  'Clients with a key/A': k => one(k.count(({ client }) => client === 'app') / k.seconds, { client: 'app' })
}
