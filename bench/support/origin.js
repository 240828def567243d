import { fileURLToPath } from 'node:url'
import { Peer } from './peer.js'

const program = fileURLToPath(new URL('static-origin.js', import.meta.url))

/** A read of the static origin: a modules page of just so many bytes at a version. */
export const readOf = (bytes, version) => ({
  path: `/v1/accounts/0x${bytes.toString(16)}/modules?ledger_version=${version}`
})

/** Starts the static origin, which counts what it is asked. */
export async function startOrigin ({ programs }) {
  const running = await programs.start('the origin', [process.execPath, program])
  const peer = new Peer('direct', await running.says(line => /^origin on (\S+)$/.exec(line)?.[1]), running)
  const control = async query => JSON.parse((await peer.ask({ path: `/bench${query}` })).body)
  return Object.assign(peer, {
    /**
     * How often it was asked for something that a client wants; what varve asks on its own account is counted apart.
     */
    reads: async () => (await control('')).read,
    delay: async delayMs => {
      await control(`?delayMs=${delayMs}`)
    }
  })
}
