import { type Reply } from '../../../sandbox/reply.js'
import { type Got } from '../client.js'
import { type Era } from './chain.js'
import { mendMs, releaseMs } from './fleet.js'
import { type Case, type World } from './judge.js'
import { answerOf, firstOfPage } from './oracle.js'
import { type Shown } from './shown.js'
import { versionOf, type Wish } from './wish.js'

// What bears no position is shown with the last one known, and a sick node may have told of none for so long.
const unstampedBlocks = 20
// A reader waits so long for a fresh rendering, and then has the kept one (law 8).
const freshRenderingMs = 450

/** Whether status and body are right for a read of an era; a text says why not. */
export function judgeAnswer (given: Case, world: World, era: Era, shown: Shown | undefined): string | undefined {
  const { wish, got } = given
  switch (wish.kind) {
    case 'info':
      return got.status === 200 ? judgeInfo(given, era) : judgeError(given, world, era)
    case 'gas':
      return got.status === 200 ? judgeGas(given, era, shown) : judgeError(given, world, era)
    case 'events':
      return judgeEvents(given, wish, world, era, shown)
    case 'table':
    case 'modules':
    case 'block':
      return judgeState(given, world, era, shown)
    case 'nonsense':
      return undefined
  }
}

/** The state at a version, or at the one stamped on a latest answer: byte for byte. */
function judgeState (given: Case, world: World, era: Era, shown: Shown | undefined): string | undefined {
  const { wish, spelt, got } = given
  const height = versionOf(wish) === undefined ? shown?.height : era.archive.height
  const right = height === undefined ? undefined : answerOf(era, spelt, height, world.fleet.nodes[0]?.release)
  if (right === undefined || got.status !== right.status) return judgeError(given, world, era)
  if (isRendered(wish) && right.status === 200) return judgeRendering(given, world, era, height ?? 0)
  if (isSame(got, right)) return undefined
  // A sick node may leave its position off a not-found, which quotes the version that it was read at all the same.
  const isUnstamped = versionOf(wish) === undefined && got.status === 404 &&
    world.fleet.wasAny(given.span, ({ condition }) => condition === 'sick')
  if (
    isUnstamped && height !== undefined &&
    Array.from({ length: unstampedBlocks }, (_, at) => height + 1 + at).some(at =>
      at <= era.archive.height && isSame(got, answerOf(era, spelt, at))
    )
  ) return undefined
  // The text of a version that is not there is the same everywhere; any other 404 quotes what was asked.
  return got.status === 404 && codeOf(got) === 'version_not_found'
    ? judgeError(given, world, era)
    : `not what the chain says in era ${era.index}`
}

/**
 * Law 8: the rendering of a release that a node runs, or lately ran; an older one where no node could give another in
 * time.
 */
function judgeRendering (
  { wish, spelt, got, span }: Case,
  { fleet }: World,
  era: Era,
  height: number
): string | undefined {
  const renders = (releases: Iterable<string>): boolean =>
    [...releases].some(release => isSame(got, answerOf(era, spelt, height, release)))
  if (renders(fleet.releasesIn(span))) return undefined
  if (!renders(fleet.releases)) return `not what the chain says in era ${era.index}`
  const version = versionOf(wish) ?? 0n
  const isKnown = fleet.isKnownAble(era, span, ({ oldest, head }) => oldest <= version && version <= head, releaseMs)
  return isKnown && span.to - span.from < freshRenderingMs ? 'rendered by a release that no live node runs' : undefined
}

/** Node info bears no position, and its members come in another order each time. */
function judgeInfo ({ spelt, got }: Case, era: Era): string | undefined {
  const told = ({ body }: { body: string | Buffer }): string =>
    JSON.stringify(Object.entries(JSON.parse(String(body)) as object).sort())
  return told(got) === told(answerOf(era, spelt, era.archive.height)) ? undefined : 'not the info of this chain'
}

/** What gas costs changes every forty blocks, and is held for half a second. */
function judgeGas ({ spelt, got }: Case, era: Era, shown: Shown | undefined): string | undefined {
  const height = shown?.height ?? 0
  const isHeld = String(got.headers['cache-status']).includes('hit')
  const heights = isHeld ? [height, height - 40] : [height]
  return heights.some(at => isSame(got, answerOf(era, spelt, Math.max(0, at))))
    ? undefined
    : `not what gas costs at height ${height}`
}

/**
 * A page is what the stream held at the position on the answer; one that a node had forgotten may lack its beginning.
 */
function judgeEvents (
  given: Case,
  wish: Wish & { kind: 'events' },
  world: World,
  era: Era,
  shown: Shown | undefined
): string | undefined {
  const { got, spelt, span, floor } = given
  const right = answerOf(era, spelt, shown?.height ?? era.archive.height)
  if (got.status === 200 && isSame(got, right)) return undefined
  // What is not there, or cannot be read, is believed of the node with the longest history alone (law 11).
  const isExcused = got.status >= 500 &&
    (world.fleet.stoodStill(span) || ((wish.form === 'bcs' || isEmpty(right)) && !world.fleet.isAllUp(era, span)))
  // One that lags may have nothing to give yet, which is believed of it no more than of one that has forgotten.
  const mustGive = got.status >= 500 && !world.fleet.isAllUp(era, span)
  // In BCS nobody can tell the page of one that remembers and lags from that of one that has forgotten and is ahead.
  const has = hasEvents(wish, era, mustGive)
  const leastHead = wish.form === 'bcs' ? floor.versions[era.index] ?? -1n : -1n
  if (!isExcused && world.fleet.isAble(era, span, window => has(window) && window.head >= leastHead)) {
    return `not the page at this position, ${got.status} for ${right.status}, though a node that lived had its events`
  }
  if (given.wasKept(era)) return `${got.status} for a page that was kept`
  switch (got.status) {
    case 200:
      return wish.form === 'bcs' || isTail(got, right) ? undefined : 'a page with other events than the stream has'
    case 410:
      return undefined
    case 500:
      return /pruned/.test(got.body) ? undefined : judgeError(given, world, era)
    // No able node lived, as was just found; what is left is whether the error is one of those that may be said then.
    default:
      return judgeError(given, world, era, () => false)
  }
}

/** Whether an error is granted: by law 11, or since no able node lived throughout and nothing was kept. */
function judgeError (
  given: Case,
  { fleet }: World,
  era: Era,
  isThere = hasVersion(versionOf(given.wish))
): string | undefined {
  const { wish, got, span, floor } = given
  const version = versionOf(wish)
  const refused = `${got.status} ${codeOf(got)}`
  if (given.wasKept(era)) return `${refused} for what was kept`
  switch (got.status) {
    case 404:
      if (codeOf(got) !== 'version_not_found' && codeOf(got) !== 'block_not_found') {
        return `${refused} is not what the chain says`
      }
      if (version === undefined) return `${refused} for a read that names no version`
      if (version <= (floor.versions[era.index] ?? -1n)) {
        return `${refused} for a version at or below one that was shown`
      }
      // One node is asked in any case; among several one is chosen by what was last known of them.
      return (fleet.nodes.length === 1 ? fleet.isAble(era, span, isThere) : fleet.isKnownAble(era, span, isThere))
        ? `${refused} though a live node had it`
        : undefined
    case 410:
      if (version === undefined || codeOf(got) !== 'version_pruned' || !got.body.includes(`(${version})`)) {
        return `${refused} of another read`
      }
      return fleet.mayAllLack(era, span, version)
        ? undefined
        : `${refused} though a node had it when it was last heard of`
    case 429:
    case 500:
      if (!fleet.wasAny(span, ({ condition }) => condition === 'sick')) return `${refused} of nobody`
      break
    case 503:
      if (codeOf(got) !== 'internal_error') return `${refused} is not of the node's shape`
      if (
        !/^\d+$/.test(String(got.headers['retry-after'])) &&
        !fleet.wasAny(span, ({ condition }) => condition === 'sick')
      ) return `${refused} without Retry-After`
      break
    default:
      return `${refused} is not what the chain says`
  }
  // Where nobody can have it, any node that lives can say so.
  const isNowhere = version !== undefined &&
    (version > era.archive.head.version || fleet.mustAllLack(era, span, version))
  const has = isNowhere ? hasVersion(undefined) : isThere
  const isAble = fleet.nodes.length === 1 ? fleet.isAble(era, span, has) : fleet.isKnownAble(era, span, has, mendMs)
  return isAble && !fleet.stoodStill(span) ? `${refused} though a node that was able lived throughout` : undefined
}

/** Whether a node has the events of a page, which for the last ones depends on where it stands. */
export function hasEvents (
  wish: Wish & { kind: 'events' },
  era: Era,
  mustGive = false
): (window: { oldest: bigint, head: bigint }) => boolean {
  return ({ oldest, head }) => {
    const first = firstOfPage(era, wish, Number(era.archive.blockOf(head).height))
    return first === undefined ? !mustGive : oldest <= first
  }
}

function hasVersion (version: bigint | undefined): (window: { oldest: bigint, head: bigint }) => boolean {
  return ({ oldest, head }) => version === undefined || (oldest <= version && version <= head)
}

// The embedded node renders modules and transactions by its release, and everything else by what the chain says.
function isRendered (wish: Wish): boolean {
  return wish.form === 'json' && (wish.kind === 'modules' || (wish.kind === 'block' && wish.hasTransactions))
}

function isSame (got: Got, { status, body, headers }: Reply): boolean {
  const line = (name: string): string | undefined => headers.find(([known]) => known === name)?.[1]
  const type = (text: unknown): string => String(text).split(';')[0] ?? ''
  return got.status === status && got.bytes.equals(body) &&
    type(got.headers['content-type']) === type(line('content-type')) &&
    got.headers['x-node-cursor'] === line('x-aptos-cursor')
}

function isEmpty ({ status, body }: Reply): boolean {
  return status === 200 && body.toString() === '[]'
}

function isTail ({ body }: Got, right: Reply): boolean {
  const [page, whole] = [body, right.body.toString()].map(text =>
    (JSON.parse(text) as unknown[]).map(event => JSON.stringify(event))
  )
  return page !== undefined && whole !== undefined &&
    page.every((event, at) => whole[whole.length - page.length + at] === event)
}

function codeOf ({ body }: Got): string {
  return /"error_code":"(\w+)"/.exec(body)?.[1] ?? 'without a code'
}
