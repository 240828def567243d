import { mkdtempSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { say } from '../../scripts/ground.js'
import { Programs } from './programs.js'

/**
 * What a claim is given: how long to measure, what this machine has, and a place and programs that end with the run.
 */
export class Bench {
  rounds
  seconds
  isSmoke
  tools
  programs
  say = say
  #home = mkdtempSync(join(tmpdir(), 'varve-bench-'))

  /** A new empty folder that is gone when the run has ended. */
  folder = async name => await mkdtemp(join(this.#home, `${name}-`))

  constructor ({ rounds, seconds, isSmoke }, tools, cores) {
    this.rounds = rounds
    this.seconds = seconds
    this.isSmoke = isSmoke
    this.tools = tools
    this.programs = new Programs(tools.paths.taskset, cores)
    // However this ends: at its end, by a mistake, or by Ctrl-C.
    process.once('exit', () => {
      this.#clear()
    })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
      process.once(signal, () => {
        process.exit(128 + constants.signals[signal])
      })
    }
  }

  /** Ends everything that a claim may have left running. */
  async tidy () {
    await this.programs.stopAll()
  }

  #clear () {
    this.programs.killAll()
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 3 })
  }
}
