import { lookup } from 'node:dns/promises'
import { type FastifyInstance } from 'fastify'
import { hostAndPort, socketPathOf } from '../config/value-checks.js'
import { listenError } from './listen-error.js'
import { openToAll } from './unix-socket.js'

/** Opens a listener; an error names the key that configures the address. */
export async function listenOn (app: FastifyInstance, address: string, key: string): Promise<string> {
  try {
    const socketPath = socketPathOf(address)
    if (socketPath !== undefined) {
      await app.listen({ path: socketPath })
      await openToAll(socketPath)
      return address
    }
    const { host, port } = hostAndPort(address)
    // Fastify opens a second server for localhost without our settings if it resolves to two addresses, so one address
    // is chosen.
    return await app.listen({ host: (await lookup(host)).address, port })
  } catch (error) {
    throw listenError(address, { key, flag: key === 'listen' ? '--listen' : '--admin' }, error as Error)
  }
}
