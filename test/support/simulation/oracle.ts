import { respond } from '../../../sandbox/respond.js'
import { depositStream, streamWithoutEvents } from '../../../sandbox/deposit-events.js'
import { newBlockStream, newEpochStream } from '../../../sandbox/ledger-events.js'
import { defaultSettings } from '../../../sandbox/options.js'
import { type SandboxResponse } from '../../../sandbox/response.js'
import { type Era } from './chain.js'
import { type ModelRequest } from './render-request.js'
import { type ReadSpec } from './read-spec.js'

const streams = {
  blocks: newBlockStream,
  epochs: newEpochStream,
  deposits: depositStream,
  nothing: streamWithoutEvents
}

/** Returns the response of a healthy, unpruned upstream at a height. */
export function expectedResponse (
  { archive }: Era,
  { method, target, headers, body }: ModelRequest,
  height: number,
  release?: string
): SandboxResponse {
  if (release !== undefined) archive.release = release
  const bytes = Buffer.from(body ?? '')
  return respond(
    {
      method,
      rawTarget: target,
      accept: headers['accept'],
      contentType: headers['content-type'],
      contentLength: String(bytes.length),
      body: bytes,
      requestIndex: 0
    },
    { ledger: archive, position: archive.position(height) },
    defaultSettings
  )
}

/** Returns the version of a page's first event at a height; undefined if it has none. */
export function firstEventVersion (
  { archive }: Era,
  { stream, start, limit = defaultSettings.eventsDefault }: ReadSpec & { kind: 'events' },
  height: number
): bigint | undefined {
  const { countAtHeight, eventAt } = streams[stream]
  const count = countAtHeight(height)
  const first = start ?? Math.max(0, count - limit)
  return first < count ? eventAt(archive, first).version : undefined
}
