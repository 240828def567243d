import { type Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

/** Resets a connection, except while it ends: Node never closes a socket that is reset then. TLS has no reset. */
export function reset (socket: Socket): void {
  if (socket instanceof TLSSocket || (socket.writableEnded && !socket.writableFinished)) socket.destroy()
  else socket.resetAndDestroy()
}
