import { ServerResponse, STATUS_CODES } from 'node:http'
import { type Socket } from 'node:net'
import { Refusal } from '../reads/refusal.js'

/** Answers what Node's parser could not read as a request, in the node's shape, and closes the connection. */
export function answerClientErrors (error: Error & { code?: string }, socket: Socket): void {
  const due = answerDueOn(socket)
  if (due !== undefined) {
    // An answer to an earlier request comes first, or the client would take this one for it.
    due.once('finish', () => { socket.destroySoon() })
    return
  }
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const refusal = new Refusal(statusOf(error.code), 'web_framework_error', 'the request could not be read')
  socket.end(`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${Buffer.byteLength(refusal.body)}\r\nCache-Status: varve; detail=refused\r\nConnection: close\r\n\r\n${refusal.body}`)
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
