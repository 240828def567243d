import { at } from '../../scripts/ground.js'
import { cli } from '../../scripts/compile.js'
import { lineOf } from './timed-request.js'
import { Peer } from './peer.js'

/** Returns the command line of varve with default settings, except ports and upstream, if a file has none. */
export function varveCommand (
  originUrl,
  { node = process.execPath, listen = '127.0.0.1:0', nodeFlags = [], flags = [] } = {}
) {
  return [
    node,
    ...nodeFlags,
    at(cli),
    'serve',
    ...(originUrl === undefined ? [] : ['--upstream', originUrl]),
    '--listen',
    listen,
    '--admin',
    '127.0.0.1:0',
    ...flags
  ]
}

/** Starts varve in front of an upstream and waits until it is ready. */
export async function startVarve ({ programs }, originUrl, { part = 'server', ...how } = {}) {
  const program = await programs.start('varve', varveCommand(originUrl, how), { part })
  const { url, adminUrl } = await program.says(line => line.includes('"listening"') ? JSON.parse(line) : undefined)
  const admin = new Peer('varve admin', adminUrl, program)
  await program.until(async () => (await admin.ask({ path: '/readyz' })).status === 200)
  const peer = new Peer('varve', url, program, answer => lineOf(answer, 'cache-status') === 'varve; hit; detail=memory')
  return Object.assign(peer, {
    program,
    /** Scrapes varve's metrics. */
    metrics: async () => metricsIn((await admin.ask({ path: '/metrics' })).body.toString())
  })
}

/** Parses a scrape; `sum` adds the series that match a name and labels. */
function metricsIn (text) {
  const series = text.split('\n').filter(line => line !== '' && !line.startsWith('#')).map(line => {
    const cut = line.lastIndexOf(' ')
    return [line.slice(0, cut), Number(line.slice(cut + 1))]
  })
  return {
    sum: (name, ...labels) =>
      series
        .filter(([key]) => (key === name || key.startsWith(`${name}{`)) && labels.every(label => key.includes(label)))
        .reduce((total, [, value]) => total + value, 0)
  }
}
