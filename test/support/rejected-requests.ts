import { type TestResponse } from './client.js'
import { type RequestVariant } from './request-variants.js'

/** True if a node rejects the request itself before it reads its ledger. */
export function isRejectedRequest ({ status, headers, body }: TestResponse): boolean {
  if (headers['x-aptos-ledger-version'] !== undefined) return false
  return status === 405 || status === 415 || status === 411 ||
    (status === 404 && body.includes('"web_framework_error"')) || status === 400
}

const known = new Set(['ledger_version', 'start', 'limit', 'with_transactions'])

/**
 * True if varve rejects on purpose what a node may accept: a parameter given twice, or a query encoded twice
 * (docs/node-behaviour.md, "Percent-encoding").
 */
export function isStricterThanUpstream ({ target, body }: RequestVariant): boolean {
  if (/\?.*%25/.test(target)) return true
  const names = [...new URLSearchParams(`?${target.slice(target.indexOf('?') + 1)}`).keys()].filter(name =>
    known.has(name)
  )
  return new Set(names).size < names.length || hasRepeatedMember(body ?? '')
}

function hasRepeatedMember (text: string): boolean {
  try {
    const colons = text.replace(/"(?:[^"\\]|\\.)*"/g, '').split(':').length - 1
    return membersOf(JSON.parse(text)) < colons
  } catch {
    return false
  }
}

function membersOf (value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const items = Object.values(value)
  return items.reduce<number>((sum, item) => sum + membersOf(item), Array.isArray(value) ? 0 : items.length)
}
