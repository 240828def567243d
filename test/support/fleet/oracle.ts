import { answer } from '../../../sandbox/answer.js'
import { depositEvents, noEvents } from '../../../sandbox/deposits.js'
import { newBlockEvents, newEpochEvents } from '../../../sandbox/events.js'
import { defaults } from '../../../sandbox/options.js'
import { type Reply } from '../../../sandbox/reply.js'
import { type Era } from './chain.js'
import { type Spelt } from './spell.js'
import { type Wish } from './wish.js'

const streams = { blocks: newBlockEvents, epochs: newEpochEvents, deposits: depositEvents, nothing: noEvents }

/** What a node without any fault, which has never forgotten anything, says when it has got as far as a height. */
export function answerOf (
  { archive }: Era,
  { method, target, headers, body }: Spelt,
  height: number,
  release?: string
): Reply {
  if (release !== undefined) archive.release = release
  const bytes = Buffer.from(body ?? '')
  return answer(
    {
      method,
      rawTarget: target,
      accept: headers['accept'],
      contentType: headers['content-type'],
      contentLength: String(bytes.length),
      body: bytes,
      serial: 0
    },
    { ledger: archive, position: archive.position(height) },
    defaults
  )
}

/** The version of the first event that a page begins with at a height; undefined where it has none. */
export function firstOfPage (
  { archive }: Era,
  { stream, start, limit = defaults.eventsDefault }: Wish & { kind: 'events' },
  height: number
): bigint | undefined {
  const { countAt, eventOf } = streams[stream]
  const count = countAt(height)
  const first = start ?? Math.max(0, count - limit)
  return first < count ? eventOf(archive, first).version : undefined
}
