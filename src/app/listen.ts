import { lookup } from 'node:dns/promises'
import { chmod, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { type FastifyInstance } from 'fastify'
import { hostAndPort, socketPathOf } from '../config/value-checks.js'

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

const adviceByCode: Readonly<Record<string, string>> = {
  EADDRINUSE: 'stop the process that listens there, or choose another address with FLAG (port 0 picks a free port)',
  EACCES: 'ports below 1024 need a privilege: choose a higher one with FLAG',
  EADDRNOTAVAIL: 'this machine does not have that address: use FLAG with 0.0.0.0 for all its addresses',
  ENOTFOUND: 'DNS lookup failed: give an IP address with FLAG',
  EAI_AGAIN: 'DNS lookup failed temporarily: retry, or give an IP address with FLAG'
}

/** Builds the error for an address that cannot be opened, with advice; `key` and `flag` name the setting. */
export function listenError (
  address: string,
  { key, flag }: { readonly key: string, readonly flag: string },
  error: Error
): Error {
  const { code = '' } = error as NodeJS.ErrnoException
  const advice = adviceByCode[code]
  return new Error(
    `cannot listen on ${address} (${key}): ${error.message}${
      advice === undefined ? '' : `; ${advice.replace('FLAG', flag)}`
    }`,
    { cause: error }
  )
}

// As nginx does: permissions of the folder decide who may connect.
const socketMode = 0o666

/** Removes the socket that a killed process left; a socket in use stays, and so does any other file. */
export async function removeStaleSocket (path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found?.isSocket() === true && !await isInUse(path)) await rm(path, { force: true })
}

/** Lets every user who reaches the folder connect: a proxy in front of varve often runs as another user. */
export async function openToAll (path: string): Promise<void> {
  await chmod(path, socketMode)
}

async function isInUse (path: string): Promise<boolean> {
  return await new Promise(resolve => {
    const connection = connect(path)
    connection.once('connect', () => {
      connection.destroy()
      resolve(true)
    }).once('error', (error: NodeJS.ErrnoException) => {
      resolve(error.code !== 'ECONNREFUSED')
    })
  })
}
