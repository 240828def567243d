import { ServerResponse } from 'node:http'
import { type Socket } from 'node:net'

/** Returns the response that a connection waits for, from the field that Node's own error handler reads. */
export function findPendingResponse (socket: Socket): ServerResponse | undefined {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse ? message : undefined
}
