import { type SandboxResponse } from '../../../sandbox/response.js'
import { type TestResponse } from '../client.js'
import { type Era } from './chain.js'
import { recoveryMs, releaseMs } from './simulated-pool.js'
import { type JudgedRead, type Simulation } from './judge.js'
import { expectedResponse, firstEventVersion } from './oracle.js'
import { type ServedPosition } from './served-position.js'
import { versionOf, type ReadSpec } from './read-spec.js'

// Allowed age in blocks: a response without position gets the last known one, which a failing upstream may not renew.
const unstampedBlocks = 20
// Time that a read waits for a fresh rendering before it gets the stored one (law 8).
const freshRenderingMs = 450

/** Checks status and body of a read of an era; returns a text if they are wrong. */
export function judgeResponse (
  given: JudgedRead,
  world: Simulation,
  era: Era,
  shown: ServedPosition | undefined
): string | undefined {
  const { spec, response } = given
  switch (spec.kind) {
    case 'info':
      return response.status === 200 ? judgeInfo(given, era) : judgeError(given, world, era)
    case 'gas':
      return response.status === 200 ? judgeGas(given, era, shown) : judgeError(given, world, era)
    case 'events':
      return judgeEvents(given, spec, world, era, shown)
    case 'table':
    case 'modules':
    case 'block':
      return judgeState(given, world, era, shown)
    case 'nonsense':
      return undefined
  }
}

/** Checks the state at a version, or at the version stamped on a latest response, byte for byte. */
function judgeState (
  given: JudgedRead,
  world: Simulation,
  era: Era,
  shown: ServedPosition | undefined
): string | undefined {
  const { spec, request, response } = given
  const height = versionOf(spec) === undefined ? shown?.height : era.archive.height
  const right = height === undefined
    ? undefined
    : expectedResponse(era, request, height, world.pool.upstreams[0]?.release)
  if (right === undefined || response.status !== right.status) return judgeError(given, world, era)
  if (isRendered(spec) && right.status === 200) return judgeRendering(given, world, era, height ?? 0)
  if (isSame(response, right)) return undefined
  // Accepts a not-found without position from a failing upstream, which still quotes its version.
  const isUnstamped = versionOf(spec) === undefined && response.status === 404 &&
    world.pool.wasAnyUpstream(given.span, ({ condition }) => condition === 'sick')
  if (
    isUnstamped && height !== undefined &&
    Array.from({ length: unstampedBlocks }, (_, at) => height + 1 + at).some(at =>
      at <= era.archive.height && isSame(response, expectedResponse(era, request, at))
    )
  ) return undefined
  // Accepts version_not_found, whose text is the same everywhere; any other 404 quotes the read.
  return response.status === 404 && codeOf(response) === 'version_not_found'
    ? judgeError(given, world, era)
    : `not what the chain says in era ${era.index}`
}

/** Checks law 8: the rendering of a current or recent release; an older one if no upstream could render in time. */
function judgeRendering (
  { spec, request, response, span }: JudgedRead,
  { pool }: Simulation,
  era: Era,
  height: number
): string | undefined {
  const renders = (releases: Iterable<string>): boolean =>
    [...releases].some(release => isSame(response, expectedResponse(era, request, height, release)))
  if (renders(pool.releasesIn(span))) return undefined
  if (!renders(pool.releases)) return `not what the chain says in era ${era.index}`
  const version = versionOf(spec) ?? 0n
  const isKnown = pool.hadKnownCapableUpstream(
    era,
    span,
    ({ oldest, head }) => oldest <= version && version <= head,
    releaseMs
  )
  return isKnown && span.to - span.from < freshRenderingMs ? 'rendered by a release that no live node runs' : undefined
}

/** Checks node info without position, and with its members in any order. */
function judgeInfo ({ request, response }: JudgedRead, era: Era): string | undefined {
  const told = ({ body }: { body: string | Buffer }): string =>
    JSON.stringify(Object.entries(JSON.parse(String(body)) as object).sort())
  return told(response) === told(expectedResponse(era, request, era.archive.height))
    ? undefined
    : 'not the info of this chain'
}

/** Checks the gas price, which changes every forty blocks and is reused for half a second. */
function judgeGas ({ request, response }: JudgedRead, era: Era, shown: ServedPosition | undefined): string | undefined {
  const height = shown?.height ?? 0
  const isHeld = String(response.headers['cache-status']).includes('hit')
  const heights = isHeld ? [height, height - 40] : [height]
  return heights.some(at => isSame(response, expectedResponse(era, request, Math.max(0, at))))
    ? undefined
    : `not what gas costs at height ${height}`
}

/** Checks a page against the stream at the response's position; a pruned upstream may omit its beginning. */
function judgeEvents (
  given: JudgedRead,
  wish: ReadSpec & { kind: 'events' },
  world: Simulation,
  era: Era,
  shown: ServedPosition | undefined
): string | undefined {
  const { response, request, span, servedFloor } = given
  const right = expectedResponse(era, request, shown?.height ?? era.archive.height)
  if (response.status === 200 && isSame(response, right)) return undefined
  // Applies law 11: missing or unreadable pages are trusted only from the upstream with the longest history.
  const isExcused = response.status >= 500 &&
    (world.pool.wasStalled(span) || ((wish.form === 'bcs' || isEmptyPage(right)) && !world.pool.wereAllUp(era, span)))
  // Treats a lagging upstream like a pruned one: its empty page is not trusted either.
  const mustGive = response.status >= 500 && !world.pool.wereAllUp(era, span)
  // Requires more in BCS, where the page of a lagging full history looks like that of a pruned one ahead.
  const has = hasEvents(wish, era, mustGive)
  const leastHead = wish.form === 'bcs' ? servedFloor.versions[era.index] ?? -1n : -1n
  if (!isExcused && world.pool.hadCapableUpstream(era, span, window => has(window) && window.head >= leastHead)) {
    return `not the page at this position, ${response.status} for ${right.status}, though a node that lived had its events`
  }
  if (given.wasCached(era)) return `${response.status} for a page that was kept`
  switch (response.status) {
    case 200:
      return wish.form === 'bcs' || isTail(response, right) ? undefined : 'a page with other events than the stream has'
    case 410:
      return undefined
    case 500:
      return /pruned/.test(response.body) ? undefined : judgeError(given, world, era)
    // Checks the kind of error: it was just established that no capable upstream lived.
    default:
      return judgeError(given, world, era, () => false)
  }
}

/** True if an error is allowed: by law 11, or because no capable upstream lived and nothing was cached. */
function judgeError (
  given: JudgedRead,
  { pool }: Simulation,
  era: Era,
  isThere = hasVersion(versionOf(given.spec))
): string | undefined {
  const { spec, response, span, servedFloor } = given
  const version = versionOf(spec)
  const refused = `${response.status} ${codeOf(response)}`
  if (given.wasCached(era)) return `${refused} for what was kept`
  switch (response.status) {
    case 404:
      if (codeOf(response) !== 'version_not_found' && codeOf(response) !== 'block_not_found') {
        return `${refused} is not what the chain says`
      }
      if (version === undefined) return `${refused} for a read that names no version`
      if (version <= (servedFloor.versions[era.index] ?? -1n)) {
        return `${refused} for a version at or below one that was shown`
      }
      // Requires known capability among several upstreams: varve chooses by their last reports.
      return (pool.upstreams.length === 1
          ? pool.hadCapableUpstream(era, span, isThere)
          : pool.hadKnownCapableUpstream(era, span, isThere))
        ? `${refused} though a live node had it`
        : undefined
    case 410:
      if (version === undefined || codeOf(response) !== 'version_pruned' || !response.body.includes(`(${version})`)) {
        return `${refused} of another read`
      }
      return pool.mayBePrunedEverywhere(era, span, version)
        ? undefined
        : `${refused} though a node had it when it was last heard of`
    case 429:
    case 500:
      if (!pool.wasAnyUpstream(span, ({ condition }) => condition === 'sick')) return `${refused} of nobody`
      break
    case 503:
      if (codeOf(response) !== 'internal_error') return `${refused} is not of the node's shape`
      if (
        !/^\d+$/.test(String(response.headers['retry-after'])) &&
        !pool.wasAnyUpstream(span, ({ condition }) => condition === 'sick')
      ) return `${refused} without Retry-After`
      break
    default:
      return `${refused} is not what the chain says`
  }
  // Accepts this from any responding upstream, if no upstream can have the version.
  const isNowhere = version !== undefined &&
    (version > era.archive.head.version || pool.mustBePrunedEverywhere(era, span, version))
  const has = isNowhere ? hasVersion(undefined) : isThere
  const isAble = pool.upstreams.length === 1
    ? pool.hadCapableUpstream(era, span, has)
    : pool.hadKnownCapableUpstream(era, span, has, recoveryMs)
  return isAble && !pool.wasStalled(span) ? `${refused} though a node that was able lived throughout` : undefined
}

/** True if an upstream has the events of a page; for the last ones this depends on its head. */
export function hasEvents (
  wish: ReadSpec & { kind: 'events' },
  era: Era,
  mustGive = false
): (window: { oldest: bigint, head: bigint }) => boolean {
  return ({ oldest, head }) => {
    const first = firstEventVersion(era, wish, Number(era.archive.blockOf(head).height))
    return first === undefined ? !mustGive : oldest <= first
  }
}

function hasVersion (version: bigint | undefined): (window: { oldest: bigint, head: bigint }) => boolean {
  return ({ oldest, head }) => version === undefined || (oldest <= version && version <= head)
}

// True for modules and transactions, which the embedded node renders by its release.
function isRendered (wish: ReadSpec): boolean {
  return wish.form === 'json' && (wish.kind === 'modules' || (wish.kind === 'block' && wish.hasTransactions))
}

function isSame (got: TestResponse, { status, body, headers }: SandboxResponse): boolean {
  const line = (name: string): string | undefined => headers.find(([known]) => known === name)?.[1]
  const type = (text: unknown): string => String(text).split(';')[0] ?? ''
  return got.status === status && got.bytes.equals(body) &&
    type(got.headers['content-type']) === type(line('content-type')) &&
    got.headers['x-node-cursor'] === line('x-aptos-cursor')
}

function isEmptyPage ({ status, body }: SandboxResponse): boolean {
  return status === 200 && body.toString() === '[]'
}

function isTail ({ body }: TestResponse, right: SandboxResponse): boolean {
  const [page, whole] = [body, right.body.toString()].map(text =>
    (JSON.parse(text) as unknown[]).map(event => JSON.stringify(event))
  )
  return page !== undefined && whole !== undefined &&
    page.every((event, at) => whole[whole.length - page.length + at] === event)
}

function codeOf ({ body }: TestResponse): string {
  return /"error_code":"(\w+)"/.exec(body)?.[1] ?? 'without a code'
}
