import { cpus, release, totalmem, type } from 'node:os'
import { textOf } from '../../scripts/ground.js'

/** Describes the machine; figures without it cannot be compared. */
export function machineHere (tools, cores) {
  return {
    cpu: cpus()[0]?.model ?? modelName() ?? 'unknown',
    cores: cpus().length,
    memoryMb: Math.round(totalmem() / 1024 / 1024),
    system: `${type()} ${release()}`,
    node: process.versions.node,
    tools: tools.versions,
    pinned: cores === undefined ? null : { server: cores.server, everythingElse: cores.rest }
  }
}

function modelName () {
  return /^model name\s*: (.*)$/m.exec(textOf('/proc/cpuinfo') ?? '')?.[1]
}
