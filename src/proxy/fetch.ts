import { type Chain } from '../chain/tracker.js'
import { judge } from '../api/lifetime.js'
import { atVersion, keysOf, type Read, type ReadKeys } from '../api/read.js'
import { askCurrently, askTruly } from './ask.js'
import { keep, keepForAMoment, share } from './keep.js'
import { type Fetched, type PinnedFetch } from './outcomes.js'
import { askedAs } from './events/pages.js'
import { type Parts } from './parts.js'
import { learnStream } from './events/streams.js'

/** Fetches what is keyed by a version, a block or a page, and keeps it when it is proven history. */
export async function fetchHistory (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<PinnedFetch> {
  const purges = parts.forgetting.times
  const judged = read.isOpen ? await askCurrently(parts, read, chain) : await askTruly(parts, read)
  learnStream(parts, read, chain, judged.answer)
  const fetched = keep(parts, read, keys, chain, judged)
  // What was asked for before a purge may be what was meant by it.
  if (!parts.forgetting.takeBack(fetched.entry, purges, askedAs(read, chain))) {
    share(parts, read, chain, fetched, judged.verdict.lifetime?.ttlMs)
  }
  return { ...fetched, text: keys.text }
}

/** Fetches what is of the moment; a state that was read so is kept under the version that it was read at. */
export async function fetchLatest (parts: Parts, read: Read, keys: ReadKeys, chain: Chain): Promise<Fetched> {
  const askedAtMs = parts.now()
  const purges = parts.forgetting.times
  const judged = await askCurrently(parts, read, chain)
  const { answer } = judged
  learnStream(parts, read, chain, answer)
  // What was asked for before a purge may be what was meant by it.
  if (parts.forgetting.times !== purges) return { answer, entry: undefined, notKept: undefined }
  if (!judged.isLate) keepForAMoment(parts, read, keys, chain, answer, askedAtMs)
  if (read.isOpen) {
    const page = keep(parts, read, keys, chain, judged)
    share(parts, read, chain, page, judged.verdict.lifetime?.ttlMs)
    return page
  }
  const version = answer.stamped?.position.head.version
  if (version === undefined || !parts.settings.promoteLatest || read.endpoint.keyedBy !== 'version') {
    return { answer, entry: undefined, notKept: undefined }
  }
  const pinned = atVersion(read, version)
  return keep(parts, pinned, keysOf(pinned, chain), chain, { answer, verdict: judge(pinned, answer, parts.settings) })
}
