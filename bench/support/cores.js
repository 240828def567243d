import { run } from '../../scripts/ground.js'

/**
 * Assigns one core to the measured server and one to the rest; undefined without pinning. Containers may exclude cores
 * 0 and 1.
 */
export async function coresHere (taskset) {
  if (taskset === undefined) return undefined
  const { output } = await run([taskset, '-cp', String(process.pid)], { env: { ...process.env, LC_ALL: 'C' } })
  const all = listed(/: ([\d,-]+)\s*$/.exec(output)?.[1] ?? '')
  if (all.length < 2) return undefined
  return { server: String(all[0]), rest: String(all[1]), all: all.join() }
}

/** Pins this process; child processes inherit the core unless they are pinned themselves. */
export async function pinThisProcess (taskset, core) {
  await run([taskset, '-acp', core, String(process.pid)])
}

// Parses a CPU list such as 0-3,8.
function listed (text) {
  return text.split(',').filter(part => part !== '').flatMap(part => {
    const [from, to = from] = part.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
}
