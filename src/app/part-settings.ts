import { ParsedRequestCache } from '../cache/parsed-request-cache.js'
import { type Config } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { type ProxySettings } from '../proxy/proxy-context.js'
import { type KnownRequest, type KnownRequestCache } from '../proxy/parsed-request.js'

// Memory for known requests, as a share of the memory tier and in addition to it.
const knownRequestShare = 3 / 16
const minKnownRequestBytes = 6 * bytesPerMb

// Measured (bench/NOTES.md): of a request variant the read, its keys, the memoised response, a table slot, and several
// copies of its text; of known bytes what was sent.
const costOf = (text: string, { sent }: KnownRequest): number =>
  sent === undefined ? 4 * text.length + 1500 : 2 * text.length + 400

/** Builds the cache of known requests, sized as a share of the memory tier. */
export function knownRequestCacheOf ({ cache }: Config): KnownRequestCache {
  const maxBytes = Math.max(minKnownRequestBytes, cache.memory.maxMb * bytesPerMb * knownRequestShare)
  return new ParsedRequestCache(maxBytes, costOf)
}

/** Picks the settings that decide how reads are served. */
export function proxySettingsOf (
  { audit, waitForVersion, latest, pages, pruned, headers }: Config
): ProxySettings {
  return {
    promoteLatest: latest.promote,
    auditShare: audit.share,
    followedAuditShare: audit.share === 0 ? 0 : audit.followedShare,
    stateMs: latest.stateMs,
    infoMs: latest.infoMs,
    indexMs: latest.indexMs,
    gasMs: latest.gasMs,
    waitMs: waitForVersion.ms,
    eventsTtlMs: pages.eventsTtlSeconds * 1000,
    servePruned: pruned.serveCached,
    answerLocally: pruned.answerLocally,
    pinsPages: pages.pinned,
    rejectsPrunedPages: pages.strict,
    emit: headers.emit
  }
}
