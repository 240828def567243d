import { createReadStream, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decodeBody, decompressBody } from '../src/tools/recording/recorded-body.js'
import { type RecordedExchange } from '../src/tools/recording/recording-format.js'
import { recordedRequestOf, semanticKeyOf } from '../src/tools/recording/request-matching.js'
import { readRecording } from '../src/tools/recording/read-recording.js'
import { firstHeaderValue } from '../src/tools/recording/verbatim-head.js'
import { sendRequest } from './support/client.js'
import { ownOutcomeIn } from './support/own-outcome.js'
import { startReplay } from './support/recorder-and-replay.js'
import { cacheStatusHeader as said } from './support/cache-status.js'
import { varveAt } from './support/varve.js'

// A report from the field is a file here, and to add one is all there is to do: see cases/replay/README.md.
const folder = join(import.meta.dirname, 'cases/replay')
const files = readdirSync(folder).filter(name => name.endsWith('.jsonl'))
const mega = 1024 * 1024

/** What of a question varve passes on, and a client may have sent. */
const sentAlong = ['accept', 'content-type']

interface Told {
  readonly status: number
  readonly type: string | undefined
  readonly body: string
}

/** A recorded answer by all that is compared; undefined where there is nothing to compare with. */
function toldIn ({ request, answer }: RecordedExchange): Told | undefined {
  if (
    !['GET', 'HEAD', 'POST'].includes(request.method) || answer === undefined || answer.leftOut !== undefined ||
    answer.broken !== undefined
  ) return undefined
  // What nobody asks for without having the rest already.
  if (answer.status === 304 || answer.status === 206) return undefined
  const body = decompressBody(
    decodeBody(answer),
    firstHeaderValue(answer.headers, 'content-encoding') ?? 'identity',
    64 * mega
  )
  return body &&
    { status: answer.status, type: firstHeaderValue(answer.headers, 'content-type'), body: body.toString('latin1') }
}

/** Which answers were given to each question, however it was spelled. */
function answersIn (pairs: readonly RecordedExchange[]): Map<string, Told[]> {
  const answers = new Map<string, Told[]>()
  for (const pair of pairs) {
    const [asked, told] = [recordedRequestOf(pair.request), toldIn(pair)]
    if (asked !== undefined && told !== undefined) {
      answers.set(semanticKeyOf(asked), [...answers.get(semanticKeyOf(asked)) ?? [], told])
    }
  }
  return answers
}

t.ok(files.length > 1, 'there are reports')

for (const file of files) {
  t.test(`${file}: through varve every question has the answer that the node gave to it, byte for byte`, async t => {
    const { exchanges } = await readRecording(createReadStream(join(folder, file)))
    const answers = answersIn(exchanges)
    const node = await startReplay(t, join(folder, file))
    const varve = await varveAt(t, node.url)
    let compared = 0
    for (const { request } of exchanges) {
      const asked = recordedRequestOf(request)
      const expected = asked === undefined ? undefined : answers.get(semanticKeyOf(asked))
      if (asked === undefined || expected === undefined) continue
      const headers = Object.fromEntries(sentAlong.flatMap(name => {
        const value = firstHeaderValue(request.headers, name)
        return value === undefined ? [] : [[name, value]]
      }))
      const { status, headers: { 'content-type': type, [said]: word }, bytes } = await sendRequest(
        varve.url,
        request.target,
        {
          method: request.method,
          headers,
          ...(asked.body.length > 0 && { body: asked.body })
        }
      )
      const came = { status, type, body: bytes.toString('latin1') }
      // What varve refuses by itself has its own words.
      if (ownOutcomeIn(String(word)) !== undefined) {
        t.ok(expected.some(told => told.status === status), `${request.method} ${request.target}`)
      } else {
        // A moving response is one of those that it moved through.
        t.same(
          expected.some(told => JSON.stringify(told) === JSON.stringify(came))
            ? came
            : expected.at(-1),
          came,
          `${request.method} ${request.target}`
        )
      }
      compared++
    }
    t.ok(compared > 0, 'there was something to compare')
    t.equal(await node.stop(), 0)
    // Varve asks for blocks by itself, to know the chain by.
    t.notMatch(
      node.command.err(),
      /not answered: (?!GET \/v1\/blocks\/by_height\/)/,
      'varve asks the node for nothing that was not asked then'
    )
  })
}
