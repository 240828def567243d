import { type Era } from '../model/chain.js'
import { versionOf } from '../model/read-spec.js'
import { type PoolRead } from './pool-world.js'
import { recoveryMs, type SimulatedPool } from './simulated-pool.js'

type Window = { readonly oldest: bigint, readonly head: bigint }

/** Returns undefined if an error is allowed: by law 11 ("gone" is a fact), or without capable upstream and entry. */
export function judgeError (
  given: PoolRead,
  pool: SimulatedPool,
  era: Era,
  isThere = hasVersion(versionOf(given.spec))
): string | undefined {
  const { spec, response, span, servedFloor } = given
  const { status, headers } = response
  const text = response.bytes.toString()
  const code = /"error_code":"(\w+)"/.exec(text)?.[1] ?? 'without a code'
  const version = versionOf(spec)
  const rejection = `${status} ${code}`
  const isAnyUnhealthy = pool.wasAnyUpstream(span, ({ condition }) => condition === 'unhealthy')
  if (given.wasCached(era)) return `${rejection} for what was cached`
  switch (status) {
    case 404:
      if (code !== 'version_not_found' && code !== 'block_not_found') return `${rejection} is not what the chain says`
      if (version === undefined) return `${rejection} for a read that names no version`
      if (version <= (servedFloor.versions[era.index] ?? -1n)) {
        return `${rejection} for a version at or below the served head`
      }
      // Requires known capability among several upstreams: varve chooses by their last reports.
      return (pool.upstreams.length === 1
          ? pool.hadCapableUpstream(era, span, isThere)
          : pool.hadKnownCapableUpstream(era, span, isThere))
        ? `${rejection} though a live upstream had it`
        : undefined
    case 410:
      if (version === undefined || code !== 'version_pruned' || !text.includes(`(${version})`)) {
        return `${rejection} of another read`
      }
      return pool.mayBePrunedEverywhere(era, span, version)
        ? undefined
        : `${rejection} though an upstream had it at its last poll`
    case 429:
    case 500:
      if (!isAnyUnhealthy) return `${rejection} without an unhealthy upstream`
      break
    case 503:
      if (code !== 'internal_error') return `${rejection} is not of the node's shape`
      if (!/^\d+$/.test(String(headers['retry-after'])) && !isAnyUnhealthy) return `${rejection} without Retry-After`
      break
    default:
      return `${rejection} is not what the chain says`
  }
  // Accepts this from any responding upstream, if no upstream can have the version.
  const isNowhere = version !== undefined &&
    (version > era.archive.head.version || pool.mustBePrunedEverywhere(era, span, version))
  const has = isNowhere ? hasVersion(undefined) : isThere
  const isAble = pool.upstreams.length === 1
    ? pool.hadCapableUpstream(era, span, has)
    : pool.hadKnownCapableUpstream(era, span, has, recoveryMs)
  return isAble && !pool.wasStalled(span) ? `${rejection} though a node that was able lived throughout` : undefined
}

function hasVersion (version: bigint | undefined): (window: Window) => boolean {
  return ({ oldest, head }) => version === undefined || (oldest <= version && version <= head)
}
