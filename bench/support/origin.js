import { fileURLToPath } from 'node:url'
import { Peer } from './peer.js'

const program = fileURLToPath(new URL('static-origin.js', import.meta.url))

/** Builds a read of the static origin: a modules page of the given size at a version. */
export const readOf = (bytes, version) => ({
  path: `/v1/accounts/0x${bytes.toString(16)}/modules?ledger_version=${version}`
})

/** Starts the static origin, which counts its requests. */
export async function startOrigin ({ programs }) {
  const running = await programs.start('the origin', [process.execPath, program])
  const peer = new Peer('direct', await running.says(line => /^origin on (\S+)$/.exec(line)?.[1]), running)
  const control = async query => JSON.parse((await peer.ask({ path: `/bench${query}` })).body)
  return Object.assign(peer, {
    /** Counts client reads; varve's own requests are counted separately. */
    reads: async () => (await control('')).read,
    delay: async delayMs => {
      await control(`?delayMs=${delayMs}`)
    }
  })
}
