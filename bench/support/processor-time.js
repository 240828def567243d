import { readdirSync, readFileSync } from 'node:fs'

// Ticks of /proc, in microseconds; Linux has 100 per second.
const microsecondsPerTick = 10_000

/** Returns user and system time of a process and of all below it, in microseconds. */
export function processorTimeOf (pid) {
  return microsecondsPerTick * treeOf(pid).reduce((sum, { ticks }) => sum + ticks, 0)
}

/** Returns the memory of a process and of all below it, in bytes; what several share counts once, as in a container. */
export function memoryOf (pid) {
  return 1024 * treeOf(pid).reduce((sum, { pid }) => sum + kilobytesOf(pid), 0)
}

function treeOf (pid) {
  const running = readdirSync('/proc').filter(name => /^\d+$/.test(name)).flatMap(statOf)
  const tree = new Set([pid])
  // Repeats, because a process may be listed before its parent.
  for (let size = 0; size < tree.size;) {
    size = tree.size
    for (const { pid, parent } of running) if (tree.has(parent)) tree.add(pid)
  }
  return running.filter(({ pid }) => tree.has(pid))
}

function kilobytesOf (pid) {
  const [, kilobytes] = /^Pss: +(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1'))
  return Number(kilobytes)
}

function statOf (name) {
  try {
    // The name of a process, in brackets, may contain blanks.
    const fields = readFileSync(`/proc/${name}/stat`, 'latin1').split(') ').at(-1).split(' ')
    return [{ pid: Number(name), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }]
  } catch {
    // The process has ended meanwhile.
    return []
  }
}
