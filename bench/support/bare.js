import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { lineOf } from './timed-request.js'
import { Peer } from './peer.js'

const program = fileURLToPath(new URL('bare-server.js', import.meta.url))
// Headers that Node.js adds itself, in the bare server as in varve.
const byNode = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding'])

/** Starts the bare server with responses that varve served from memory, headers included. */
export async function startBare ({ programs, folder }, varve, requests) {
  const file = join(await folder('bare'), 'answers.json')
  await writeFile(file, JSON.stringify(await learn(varve, requests)))
  const running = await programs.start('the bare server', [process.execPath, program, file], { part: 'server' })
  const bare = new Peer('bare', await running.says(line => /^bare on (\S+)$/.exec(line)?.[1]), running)
  const [ofVarve, ofBare] = await Promise.all([varve, bare].map(async peer => headOf(await peer.ask(requests[0]))))
  if (ofVarve !== ofBare) {
    throw new Error(`the bare server sends other headers than varve:\n${ofBare}\ninstead of\n${ofVarve}`)
  }
  return bare
}

async function learn (varve, requests) {
  const answers = []
  const keys = []
  const known = new Map()
  let keepAliveMs = 0
  for (const request of requests) {
    await varve.ask(request)
    const answer = await varve.ask(request)
    if (answer.status !== 200 || !varve.isHit(answer)) {
      throw new Error(
        `varve responded ${answer.status} ${lineOf(answer, 'cache-status')} for ${request.path}`
      )
    }
    keepAliveMs = 1000 * Number(/timeout=(\d+)/.exec(lineOf(answer, 'keep-alive') ?? '')?.[1] ?? 0)
    // Request variants share one response, as in varve.
    const tag = lineOf(answer, 'etag')
    if (!known.has(tag)) {
      known.set(tag, answers.push({ lines: linesToSend(answer), body: answer.body.toString('base64') }) - 1)
    }
    keys.push([request.body === undefined ? request.path : `${request.path}\n${request.body}`, known.get(tag)])
  }
  return { keepAliveMs, answers, keys }
}

const linesToSend = ({ lines }) =>
  lines.flatMap((text, at) => at % 2 === 1 || byNode.has(text.toLowerCase()) ? [] : [text, lines[at + 1]])

// Ignores the order of headers, the date and the id of the request.
const ofOneResponse = new Set(['date', 'x-request-id'])
const headOf = ({ lines }) =>
  lines.flatMap((text, at) =>
    at % 2 === 1 || ofOneResponse.has(text.toLowerCase()) ? [] : [`${text}: ${lines[at + 1]}`]
  ).sort()
    .join('\n')
