import { ServerResponse } from 'node:http'
import { type Socket } from 'node:net'

/**
 * The answer that a connection is waiting for; Node keeps it here, and its own default handler of errors looks at the
 * same place.
 */
export function answerOn (socket: Socket): ServerResponse | undefined {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse ? message : undefined
}
