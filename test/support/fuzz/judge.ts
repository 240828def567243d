import { type Reply } from '../../../sandbox/reply.js'
import { type Setting } from './case.js'
import { isHistory, isKnown, type Memory, readOf } from './memory.js'
import { isOnPurpose } from './on-purpose.js'
import { isRefusal, type Moment, type Oracle } from './oracle.js'
import { beginsListing, type Meant } from './pinned.js'
import { difference, lineOf, plainBody } from './same.js'
import { headerOf, passedOn, type Sent } from './sent.js'
import { positionOn, type Shown } from './shown.js'
import { outcomeOf } from './tally.js'
import { type Answered } from './wire.js'

/** One request, what varve answered, and what the node says to the same. */
export interface Exchange {
  readonly sent: Sent
  /** What it would be to a node, which knows nothing of versions in cursors. */
  readonly meant: Meant
  readonly got: Answered
  readonly direct: Answered
  /** The node when it was sent and when it was answered. */
  readonly from: Moment
  readonly to: Moment
  /** What had been shown when it was sent. */
  readonly floor: Shown | undefined
  /** Every release that the node has run so far. */
  readonly releases: readonly string[]
  /** Whether the same request was known to be kept when it was sent. */
  readonly wasKept: boolean
  readonly setting: Setting
}

/** The verdict: why an answer is wrong, or undefined. */
export interface Judgement {
  readonly wrong: string | undefined
  readonly shown: Shown | undefined
}

const plainQuestion = '{"function":"0x1::a::f","type_arguments":[],"arguments":[]}'

// What gas costs changes every so many blocks.
const gasBlocks = 40

/** Decides whether an answer is right. */
export function judge (exchange: Exchange, oracle: Oracle, memory: Memory): Judgement {
  const { got, direct } = exchange
  if (direct.status >= 400 && direct.headers['content-type'] === undefined) {
    // Nobody could read it; who cannot may hang up.
    return wrong(got.status === 0 || isClientError(got.status) ? undefined : `${got.status} for what is no request`)
  }
  if (got.status === 0) return wrong('no answer')
  const shown = positionOn(got, oracle.archive)
  if (typeof shown === 'string') return wrong(shown)
  const { sent, floor } = exchange
  if (shown !== undefined && floor !== undefined && (shown.version < floor.version || shown.oldest < floor.oldest)) {
    return wrong(
      `the position has gone back to ${shown.version}, ${shown.oldest} from ${floor.version}, ${floor.oldest}`
    )
  }
  const read = readOf(sent)
  if (got.status < 400 && read?.speaksOf !== undefined && (shown?.version ?? 0n) < read.speaksOf) {
    return wrong(`the position ${shown?.version} is below the version ${read.speaksOf} that the answer speaks of`)
  }
  return { wrong: judgeAnswer(exchange, oracle, memory, shown) ?? judgeForm(exchange, oracle, memory, shown), shown }
}

function judgeAnswer (
  exchange: Exchange,
  oracle: Oracle,
  memory: Memory,
  shown: Shown | undefined
): string | undefined {
  const { got, direct, sent, from, to, wasKept, setting } = exchange
  const outcome = outcomeOf(got.headers['cache-status'])
  if (outcome === undefined) return `Cache-Status says ${got.headers['cache-status']}`
  // What was upgraded meanwhile may have been noticed, and is rendered afresh then.
  if (wasKept && from.release === to.release && outcome !== 'hit' && outcome !== 'pruned hit') {
    return `what was kept is ${outcome}`
  }
  if (setting.isObserving && outcome !== 'forwarded' && outcome !== 'refused') {
    return `${outcome}, though nothing is to be served from the cache`
  }
  if (outcome === 'refused') return judgeRefusal(exchange, oracle)
  // A latest read is never older than the moment it was asked (law 5); what bears no position tells of no moment.
  if (
    outcome === 'forwarded' && got.status < 400 && direct.headers['x-aptos-ledger-version'] !== undefined &&
    shown !== undefined && shown.height < from.height
  ) return `read at height ${shown.height}, though the node had got to ${from.height} before`
  const asked = readOf(sent)?.speaksOf
  if (
    asked !== undefined && shown !== undefined && outcome.endsWith('hit') &&
    (outcome === 'pruned hit') !== (asked < oracle.archive.block(shown.oldest).firstVersion)
  ) return `a ${outcome} of version ${asked} beside the oldest at height ${shown.oldest}`
  const meant = isKnown(sent) ? exchange.meant.sent : passedOn(sent)
  const differences = moments(exchange, outcome, shown).map(moment =>
    differs(exchange, oracle.says(meant, moment), memory, shown)
  )
  return differences.includes(undefined)
    ? undefined
    : `${outcome} with ${
      differences[0] ?? 'nothing to compare with'
    } (node at ${to.height}, its history from ${to.oldest})`
}

/**
 * What varve refuses by itself the node refuses too, but for what is on purpose; what is gone is gone there too, in the
 * same words.
 */
function judgeRefusal ({ sent, meant, got, direct, floor, to }: Exchange, oracle: Oracle): string | undefined {
  if (!isClientError(got.status)) return `refused with ${got.status}`
  if (
    isRefusal(direct.status, name => direct.headers[name] !== undefined, direct.bytes) || meant.isTorn ||
    isOnPurpose(sent, floor?.version)
  ) return undefined
  // A node looks where it stands before it reads the types of a view, and refuses them in words of its own.
  if (
    got.status === 400 && readOf({ ...sent, body: plainQuestion })?.endpoint.name === 'view' &&
    oracle.says({ ...meant.sent, target: '/v1/view' }, to).status === 400
  ) return undefined
  const isGone = got.status === 410 && direct.status === 410 &&
    (sent.method === 'HEAD' || got.bytes.equals(direct.bytes))
  return isGone
    ? undefined
    : `refused with ${got.status} ${got.bytes.toString()}, but the node says ${direct.status} ${
      direct.bytes.toString('latin1', 0, 300)
    }`
}

/** When the node may have been asked for what was answered. */
function moments (
  { from, to, sent, releases, got, setting }: Exchange,
  outcome: string,
  shown: Shown | undefined
): Moment[] {
  const height = shown?.height ?? to.height
  const lately = between(from.release, to.release)
  switch (outcome) {
    // What is kept is as it was; a release renders anew what a node still has.
    case 'hit': {
      const isGas = /^[^?]*\/estimate_gas_price(?:\?|$)/.test(sent.target)
      const heights = isGas
        ? Array.from({ length: Math.floor(height / gasBlocks) + 1 }, (_, at) => height - at * gasBlocks)
        : [height]
      // The index tells of the window that it was read in, which may have become shorter since; all else that is kept
      // is as a node says that has forgotten nothing.
      const oldests = readOf(sent)?.endpoint.name === 'index'
        ? Array.from({ length: to.oldest + 1 }, (_, at) => to.oldest - at)
        : [0]
      return heights.flatMap(at => oldests.flatMap(oldest => lately.map(release => ({ height: at, oldest, release }))))
    }
    case 'pruned hit':
      return releases.map(release => ({ height, oldest: 0, release }))
    default: {
      // What is not there yet may have come while it was under way; who only observes shows the present beside it, too.
      const isLate = got.status === 404 && (outcome !== 'forwarded' || setting.isObserving)
      const heights = isLate ? [height, ...between(from.height, to.height)] : [height]
      return heights.flatMap(at =>
        between(from.oldest, to.oldest).flatMap(oldest => lately.map(release => ({ height: at, oldest, release })))
      )
    }
  }
}

const between = <T>(from: T, to: T): T[] => from === to ? [from] : [from, to]

function differs (exchange: Exchange, right: Reply, memory: Memory, shown: Shown | undefined): string | undefined {
  const { sent, got } = exchange
  if (got.status === 304) return notModified(sent, got, right, memory)
  // A node's refusal of the request itself may quote a text that varve sent in its canonical spelling.
  if (isRefusal(right.status, name => lineOf(right, name) !== undefined, right.body)) {
    return got.status === right.status
      ? undefined
      : `${got.status} for ${right.status}`
  }
  if (isInfo(sent) && right.status === 200 && got.status === 200) {
    return sent.method === 'HEAD' || membersOf(got.bytes, sent, got) === membersOf(right.body)
      ? undefined
      : 'not the info of this node'
  }
  return difference(sent, got, right, pinnedAt(exchange, shown))
}

/**
 * The version that a cursor on the answer is to carry: the one of the request's, or the one that the first page was
 * read at.
 */
function pinnedAt ({ sent, meant, setting }: Exchange, shown: Shown | undefined): bigint | undefined {
  return meant.pinned ?? (setting.pinsPages && beginsListing(sent) ? shown?.version : undefined)
}

/** A 304 says that a body which the client has is the one that the node would give. */
function notModified (sent: Sent, got: Answered, right: Reply, memory: Memory): string | undefined {
  const { etag } = got.headers
  const asked = headerOf(sent, 'if-none-match') ?? ''
  if (right.status !== 200) return `304 for ${right.status}`
  if (etag === undefined || got.bytes.length > 0) return '304 without a tag, or with a body'
  if (asked !== '*' && !asked.includes(etag)) return `304 for ${etag}, which was not asked for`
  return isInfo(sent) || memory.isTagOf(etag, lineOf(right, 'content-type') ?? '', right.body) !== false
    ? undefined
    : `304 for ${etag}, which is the tag of another body`
}

const isInfo = ({ target }: Sent): boolean => /\/info(?:\?|$)/.test(target)

// Its members come in another order each time.
function membersOf (bytes: Buffer, sent?: Sent, got?: Answered): string {
  const body = sent === undefined || got === undefined ? bytes : plainBody(sent, got)
  return JSON.stringify(Object.entries(JSON.parse(body.toString()) as object).sort())
}

/** Tags, codings and keys. */
function judgeForm (
  { sent, meant, got, to }: Exchange,
  oracle: Oracle,
  memory: Memory,
  shown: Shown | undefined
): string | undefined {
  const { etag, 'content-type': type = '', 'content-encoding': coding = '' } = got.headers
  const body = plainBody(sent, got)
  if (typeof body === 'string') return body
  const read = readOf(sent)
  const right = oracle.says(meant.sent, { height: shown?.height ?? to.height, oldest: 0, release: to.release })
  if (got.status === 200 && etag !== undefined && sent.method !== 'HEAD') {
    const mixed = memory.tag(etag, type, coding, body)
    if (mixed !== undefined) return mixed
  }
  if (read === undefined || !isHistory(read, oracle.archive.position(to.height).version)) return undefined
  if (
    right.status !== 200 &&
    (read.endpoint.notFound === undefined || !right.body.includes(`"${read.endpoint.notFound}"`))
  ) return undefined
  return memory.key(sent, read, right, to.release)
}

const isClientError = (status: number): boolean => status >= 400 && status < 500
const wrong = (text: string | undefined): Judgement => ({ wrong: text, shown: undefined })
