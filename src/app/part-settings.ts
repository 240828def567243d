import { ParsedRequestCache } from '../cache/parsed-request-cache.js'
import { type Config } from '../config/schema.js'
import { bytesPerMb } from '../config/units.js'
import { type ProxySettings } from '../proxy/proxy-context.js'
import { type RequestVariantCache } from '../proxy/parsed-request.js'
import { type KnownRequestCache } from '../http/http-exchange.js'

// Memory for parsed requests, as a share of the memory tier and in addition to it.
const parsedRequestShare = 1 / 8
const minParsedRequestBytes = 4 * bytesPerMb
// The same for the bytes of known requests.
const knownRequestShare = 1 / 16
const minKnownRequestBytes = 2 * bytesPerMb
// Measured (bench/NOTES.md): a known request beside its bytes.
const knownRequestOverheadBytes = 400

/** Builds the cache of parsed requests, sized as a share of the memory tier. */
export function parsedRequestCacheOf ({ cache }: Config): RequestVariantCache {
  return new ParsedRequestCache(Math.max(minParsedRequestBytes, cache.memory.maxMb * bytesPerMb * parsedRequestShare))
}

/** Builds the cache of known requests, sized as a share of the memory tier; undefined if Node parses every request. */
export function knownRequestCacheOf ({ cache, http, log }: Config): KnownRequestCache | undefined {
  // Only a parsed request says who sent it.
  if (!http.fastPath || (log.access && log.clientAddress)) return undefined
  const maxBytes = Math.max(minKnownRequestBytes, cache.memory.maxMb * bytesPerMb * knownRequestShare)
  return new ParsedRequestCache(maxBytes, key => 2 * key.length + knownRequestOverheadBytes)
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
