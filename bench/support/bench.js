import { mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { say } from '../../scripts/ground.js'
import { Programs } from './programs.js'

/** Context of a claim: durations, tools of this machine, and folders and programs that end with the run. */
export class Bench {
  rounds
  seconds
  isSmoke
  tools
  programs
  say = say
  #home = mkdtempSync(join(tmpdir(), 'varve-bench-'))

  /** Creates an empty folder that is deleted when the run ends. */
  folder = async name => await mkdtemp(join(this.#home, `${name}-`))

  constructor ({ rounds, seconds, isSmoke }, tools, cores) {
    this.rounds = rounds
    this.seconds = seconds
    this.isSmoke = isSmoke
    this.tools = tools
    this.programs = new Programs(tools.paths.taskset, cores)
    // Cleans up after every kind of exit: normal, by error or by signal.
    process.once('exit', () => {
      this.#clear()
    })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
      process.once(signal, () => {
        process.exit(128 + constants.signals[signal])
      })
    }
  }

  /** Stops all programs that a claim left running. */
  async tidy () {
    await this.programs.stopAll()
  }

  #clear () {
    this.programs.killAll()
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 3 })
  }
}
