import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

const graceMs = 1000
const startMs = 20_000

/** Programs that a run starts, each pinned to its core; none outlives the run. */
export class Programs {
  #taskset
  #cores
  #running = new Set()

  /** `cores` maps the parts `server`, `rest` and `all` to cores; undefined disables pinning. */
  constructor (taskset, cores) {
    this.#taskset = taskset
    this.#cores = cores
  }

  /** Starts a program for a part: the measured `server`, the `rest`, or `all` cores. */
  async start (name, commandLine, { part = 'rest', cwd, env } = {}) {
    const pinned = this.#cores === undefined ? commandLine : [this.#taskset, '-c', this.#cores[part], ...commandLine]
    // Uses a process group, so that only this run handles Ctrl-C and workers end with their master.
    const child = spawn(pinned[0], pinned.slice(1), {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true
    })
    const program = new Program(name, child)
    this.#running.add(program)
    child.once('close', () => {
      this.#running.delete(program)
    })
    await once(child, 'spawn')
    return program
  }

  /** Stops all programs with SIGTERM, then SIGKILL after 1 s. */
  async stopAll () {
    await Promise.all([...this.#running].map(program => program.stop()))
  }

  /** Kills all programs, for exit handlers that cannot wait. */
  killAll () {
    for (const program of this.#running) program.kill()
  }
}

/** Running program with its latest output. */
class Program {
  pid
  #name
  #child
  #said = []
  #waiting = new Set()
  #ended

  constructor (name, child) {
    this.#name = name
    this.#child = child
    this.pid = child.pid
    this.#ended = new Promise(resolve => {
      child.once('close', resolve)
    })
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', line => {
        this.#said.push(line)
        if (this.#said.length > 200) this.#said.shift()
        for (const look of this.#waiting) look(line)
      })
    }
  }

  /** Waits for the first line, past or future, for which `wanted` returns a value. */
  async says (wanted) {
    for (const line of this.#said) {
      const found = wanted(line)
      if (found !== undefined) return found
    }
    return await this.#orEnd(
      new Promise(resolve => {
        const look = line => {
          const found = wanted(line)
          if (found === undefined) return
          this.#waiting.delete(look)
          resolve(found)
        }
        this.#waiting.add(look)
      })
    )
  }

  /** Repeats an attempt until it succeeds; throws after 20 s. */
  async until (attempt) {
    const tries = async () => {
      const deadline = performance.now() + startMs
      while (performance.now() < deadline) {
        if (await attempt().catch(() => false)) return true
        await pause(10)
      }
      throw new Error(`${this.#name} was not ready within ${startMs} ms:\n${this.#tail()}`)
    }
    return await this.#orEnd(tries())
  }

  /** Waits for the exit; returns the code and the last lines of output. */
  async end () {
    await this.#ended
    return { code: this.#child.exitCode, output: this.#tail() }
  }

  async stop () {
    this.#child.kill('SIGTERM')
    await Promise.race([this.#ended, pause(graceMs, undefined, { ref: false })])
    this.kill()
    await this.#ended
  }

  kill () {
    try {
      process.kill(-this.pid, 'SIGKILL')
    } catch {
      // The process group has already exited.
    }
  }

  async #orEnd (what) {
    let isReady = false
    const early = this.#ended.then(() => {
      if (!isReady) throw new Error(`${this.#name} ended before it was ready:\n${this.#tail()}`)
    })
    const result = await Promise.race([what, early])
    isReady = true
    return result
  }

  #tail () {
    return this.#said.slice(-20).join('\n')
  }
}
