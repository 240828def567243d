import { createReadStream, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decodeBody, decompressBody } from '../src/tools/recording/recorded-body.js'
import { type RecordedExchange } from '../src/tools/recording/recording-format.js'
import { decodeRecordedRequest, semanticKeyOf } from '../src/tools/recording/request-match-keys.js'
import { readRecording } from '../src/tools/recording/read-recording.js'
import { firstHeaderValue } from '../src/tools/recording/verbatim-head.js'
import { sendRequest } from './support/client.js'
import { ownOutcomeIn } from './support/own-outcome.js'
import { startReplay } from './support/recorder-and-replay.js'
import { cacheStatusHeader } from './support/cache-status.js'
import { varveAt } from './support/varve.js'

// Reports from the field are files here; see cases/replay/README.md on adding one.
const folder = join(import.meta.dirname, 'cases/replay')
const files = readdirSync(folder).filter(name => name.endsWith('.jsonl'))
const mega = 1024 * 1024

/** Request headers that varve forwards and a client may have sent. */
const sentAlong = ['accept', 'content-type']

interface ExpectedResponse {
  readonly status: number
  readonly type: string | undefined
  readonly body: string
}

/** Returns the compared parts of a recorded response; undefined if there is nothing to compare. */
function responseIn ({ request, response }: RecordedExchange): ExpectedResponse | undefined {
  if (
    !['GET', 'HEAD', 'POST'].includes(request.method) || response === undefined || response.leftOut !== undefined ||
    response.broken !== undefined
  ) return undefined
  // A 304 and a 206 presuppose that the client has the rest already.
  if (response.status === 304 || response.status === 206) return undefined
  const body = decompressBody(
    decodeBody(response),
    firstHeaderValue(response.headers, 'content-encoding') ?? 'identity',
    64 * mega
  )
  return body &&
    { status: response.status, type: firstHeaderValue(response.headers, 'content-type'), body: body.toString('latin1') }
}

/** Returns the responses to each request, whatever its variant. */
function responsesIn (pairs: readonly RecordedExchange[]): Map<string, ExpectedResponse[]> {
  const responses = new Map<string, ExpectedResponse[]>()
  for (const pair of pairs) {
    const [decoded, response] = [decodeRecordedRequest(pair.request), responseIn(pair)]
    if (decoded !== undefined && response !== undefined) {
      responses.set(semanticKeyOf(decoded), [...responses.get(semanticKeyOf(decoded)) ?? [], response])
    }
  }
  return responses
}

t.ok(files.length > 1, 'there are reports')

for (const file of files) {
  t.test(`${file}: varve returns the recorded response to every request, byte for byte`, async t => {
    const { exchanges } = await readRecording(createReadStream(join(folder, file)))
    const responses = responsesIn(exchanges)
    const upstream = await startReplay(t, join(folder, file))
    const varve = await varveAt(t, upstream.url)
    let compared = 0
    for (const { request } of exchanges) {
      const decoded = decodeRecordedRequest(request)
      const expected = decoded === undefined ? undefined : responses.get(semanticKeyOf(decoded))
      if (decoded === undefined || expected === undefined) continue
      const headers = Object.fromEntries(sentAlong.flatMap(name => {
        const value = firstHeaderValue(request.headers, name)
        return value === undefined ? [] : [[name, value]]
      }))
      const { status, headers: { 'content-type': type, [cacheStatusHeader]: word }, bytes } = await sendRequest(
        varve.url,
        request.target,
        {
          method: request.method,
          headers,
          ...(decoded.body.length > 0 && { body: decoded.body })
        }
      )
      const came = { status, type, body: bytes.toString('latin1') }
      // Varve's own rejections have other bodies.
      if (ownOutcomeIn(String(word)) !== undefined) {
        t.ok(expected.some(recorded => recorded.status === status), `${request.method} ${request.target}`)
      } else {
        // A moving response must be one of those recorded.
        t.same(
          expected.some(recorded => JSON.stringify(recorded) === JSON.stringify(came))
            ? came
            : expected.at(-1),
          came,
          `${request.method} ${request.target}`
        )
      }
      compared++
    }
    t.ok(compared > 0, 'there was something to compare')
    t.equal(await upstream.stop(), 0)
    // Varve reads blocks by itself, to verify the chain.
    t.notMatch(
      upstream.command.err(),
      /not answered: (?!GET \/v1\/blocks\/by_height\/)/,
      'varve sends the upstream nothing that was not recorded'
    )
  })
}
