import { type IncomingMessage } from 'node:http'
import { errorCodes } from 'fastify'
import { webFrameworkError } from '../api/error-response.js'
import { BodyChunks } from '../upstreams/body-chunks.js'

// Parsing a chunk costs the same for one byte as for thousands; honest clients send some hundred.
const maxChunks = 16_384

/**
 * Reads a request body as bytes (law 2: bytes are sacred). Fastify's own reader keeps an object for each chunk, so a
 * megabyte in chunks of one byte would take hundreds (law 10: nothing grows without bound).
 */
export function readBody (
  payload: IncomingMessage,
  maxBytes: number,
  done: (error: Error | null, body?: Buffer) => void
): void {
  if (Number(payload.headers['content-length']) > maxBytes) {
    done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE())
    return
  }
  const chunks = new BodyChunks()
  let count = 0
  const finish = (error: Error | null, body?: Buffer): void => {
    payload.off('data', onData).off('end', onEnd).off('error', finish)
    done(error, body)
  }
  const onData = (chunk: Buffer): void => {
    chunks.add(chunk)
    if (chunks.length > maxBytes) finish(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE())
    else if (++count > maxChunks) finish(webFrameworkError(413, 'the request body has too many chunks'))
  }
  const onEnd = (): void => {
    finish(null, chunks.join())
  }
  payload.on('data', onData).on('end', onEnd).on('error', finish).resume()
}
