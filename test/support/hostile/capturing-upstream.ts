import { type Socket } from 'node:net'
import { type Test } from 'tap'
import { listenRaw } from '../stub-upstream.js'
import { respondTo } from './upstream-responses.js'

/** Scripted response in place of the upstream's own. */
export interface ScriptedResponse {
  readonly raw: string
  readonly closes: boolean
}

/** An upstream that records every received byte, except varve's own requests. */
export interface CapturingUpstream {
  readonly url: string
  /** Requests as received, without the index and blocks by height. */
  readonly received: string[]
  /** Bytes that could not be parsed with certainty: must stay empty. */
  readonly unreadable: string[]
  script: ScriptedResponse | undefined
  /** Number of connections that wait for the end of a request or for a response. */
  inFlight: () => number
}

/** Starts it over raw TCP, so that nothing parses varve's bytes before the test does. */
export async function startCapturingUpstream (t: Test): Promise<CapturingUpstream> {
  const received: string[] = []
  const unreadable: string[] = []
  const begun = new Map<Socket, string>()
  let responseCount = 0
  const url = await listenRaw(t, socket => {
    begun.set(socket, '')
    socket.on('error', () => {})
    socket.on('close', () => {
      begun.delete(socket)
    })
    socket.on('data', chunk => {
      let text = (begun.get(socket) ?? '') + chunk.toString('latin1')
      for (let request = requestIn(text); request !== undefined; request = requestIn(text)) {
        text = text.slice(request.length)
        if (/^transfer-encoding:/im.test(request) || /^content-length:[^]*^content-length:/im.test(request)) {
          unreadable.push(request)
        }
        const isOwn = /^GET \/v1(?:\/blocks\/by_height\/\d+\S*)? HTTP/.test(request)
        if (!isOwn) received.push(request)
        if (isOwn || upstream.script === undefined) socket.write(respondTo(request, ++responseCount))
        else {
          socket.write(upstream.script.raw)
          if (upstream.script.closes) socket.end()
        }
      }
      begun.set(socket, text)
    })
  })
  const upstream: CapturingUpstream = {
    url,
    received,
    unreadable,
    script: undefined,
    inFlight: () => [...begun.values()].filter(text => text !== '').length
  }
  return upstream
}

function requestIn (text: string): string | undefined {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return undefined
  const length = headEnd + 4 + Number(/^content-length: *(\d+)\r?$/im.exec(text.slice(0, headEnd))?.[1] ?? 0)
  return text.length < length ? undefined : text.slice(0, length)
}
