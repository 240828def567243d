import { at } from '../../scripts/ground.js'
import { cli } from '../../scripts/compile.js'
import { Peer } from './peer.js'

// Requests that varve makes for itself: the head, and anchors that identify a chain.
const own = new Set(['index', 'block_by_height', 'total'])

/** Starts a sandbox node whose ledger does not grow by default, so that every run reads the same history. */
export async function startSandbox ({ programs }, blockMs = 0) {
  const program = await programs.start('the sandbox', [
    process.execPath,
    at(cli),
    'sandbox',
    '--listen',
    '127.0.0.1:0',
    '--block-ms',
    String(blockMs)
  ])
  const peer = new Peer('direct', await program.says(line => /(http:\/\/[\d.:]+)/.exec(line)?.[1]), program)
  const requests = async () => Object.entries(JSON.parse((await peer.ask({ path: '/sandbox' })).body).requests)
  return Object.assign(peer, {
    /** Counts requests by endpoint. */
    requests,
    /** Counts client reads. */
    reads: async () => (await requests()).reduce((sum, [endpoint, count]) => own.has(endpoint) ? sum : sum + count, 0),
    /** Counts requests that varve made for itself. */
    ownReads: async () =>
      (await requests()).reduce(
        (sum, [endpoint, count]) => own.has(endpoint) && endpoint !== 'total' ? sum + count : sum,
        0
      )
  })
}
