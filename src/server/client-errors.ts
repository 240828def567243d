import { ServerResponse, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { refusedStatus } from '../proxy/outcomes.js'
import { Refusal } from '../reads/refusal.js'

/** Answers what Node's parser could not read as a request, in the node's shape, and closes the connection; tells the status that it answered with. */
export function answerClientErrors (error: Error & { code?: string }, socket: Socket, answered: (status: number) => void): void {
  const due = answerDueOn(socket)
  // An answer to an earlier request comes first, or the client would take this one for it.
  if (due !== undefined) due.once('finish', () => { socket.destroySoon() })
  else if (socket.writable) socket.end(replyOf(statusOf(error.code), answered))
  else socket.destroy()
}

function replyOf (status: 400 | 408 | 431, answered: (status: number) => void): string {
  const { body } = new Refusal(status, 'web_framework_error', 'the request could not be read')
  answered(status)
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
    `Cache-Status: ${refusedStatus}\r\nConnection: close\r\n\r\n${body}`
}

function statusOf (code: string | undefined): 400 | 408 | 431 {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW': return 431
    case 'ERR_HTTP_REQUEST_TIMEOUT': return 408
    default: return 400
  }
}

// Node keeps the answer that a connection is waiting for here, and its own default handler looks at the same place.
// An answer to the very request that broke off, its body still coming, is not due any more.
function answerDueOn (socket: Socket): ServerResponse | undefined {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse && (message.headersSent || message.req.complete) ? message : undefined
}
