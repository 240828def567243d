import { chmod, rm, stat } from 'node:fs/promises'
import { connect } from 'node:net'

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
