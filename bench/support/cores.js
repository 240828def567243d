import { run } from '../../scripts/ground.js'

/**
 * Which core is for the server that is measured and which for everything else; undefined where nothing can be pinned.
 * A container may be confined to any cores, so the first two of what this process may use are taken, not 0 and 1.
 */
export async function coresHere (taskset) {
  if (taskset === undefined) return undefined
  const { output } = await run([taskset, '-cp', String(process.pid)], { env: { ...process.env, LC_ALL: 'C' } })
  const all = listed(/: ([\d,-]+)\s*$/.exec(output)?.[1] ?? '')
  if (all.length < 2) return undefined
  return { server: String(all[0]), rest: String(all[1]), all: all.join() }
}

/** Puts this very process on a core, with whatever it starts unless told otherwise. */
export async function pinThisProcess (taskset, core) {
  await run([taskset, '-acp', core, String(process.pid)])
}

// Such as 0-3,8.
function listed (text) {
  return text.split(',').filter(part => part !== '').flatMap(part => {
    const [from, to = from] = part.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
}
