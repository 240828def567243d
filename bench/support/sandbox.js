import { at } from '../../scripts/ground.js'
import { cli } from '../../scripts/compile.js'
import { Peer } from './peer.js'

// What varve asks on its own account: the head, and final blocks to tell one chain from another.
const own = new Set(['index', 'block_by_height', 'total'])

/** Starts the embedded node on a ledger that stands still, so that every run reads the same history. */
export async function startSandbox ({ programs }) {
  const program = await programs.start('the sandbox', [
    process.execPath,
    at(cli),
    'sandbox',
    '--listen',
    '127.0.0.1:0',
    '--block-ms',
    '0'
  ])
  const peer = new Peer('direct', await program.says(line => /(http:\/\/[\d.:]+)/.exec(line)?.[1]), program)
  const asked = async () => Object.entries(JSON.parse((await peer.ask({ path: '/sandbox' })).body).asked)
  return Object.assign(peer, {
    /** How often it was asked for something that a client wants. */
    reads: async () => (await asked()).reduce((sum, [endpoint, count]) => own.has(endpoint) ? sum : sum + count, 0),
    /** How often it was asked by a varve on its own account. */
    ownReads: async () =>
      (await asked()).reduce(
        (sum, [endpoint, count]) => own.has(endpoint) && endpoint !== 'total' ? sum + count : sum,
        0
      )
  })
}
