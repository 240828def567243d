import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

const startLine =
  /^(?:[A-Z_]+=\S+ +)*(?:npm start|(?:varve|node dist\/cli\.js)(?: +serve| +sandbox)?)(?= *&?$| +-)(?!.*(?: --help| -h\b))/
const listening = /"msg":"listening"|a made-up node on/
const startMs = 300_000
const stopMs = 15_000

/** True if a command runs until it is stopped. */
export function isServerCommand (command: string): boolean {
  return startLine.test(command)
}

/** True if a command starts the embedded node only. */
export function isSandboxCommand (command: string): boolean {
  return isServerCommand(command) && /(?:varve|cli\.js) +sandbox\b/.test(command)
}

/** A server that a page starts. */
export class PageServer {
  readonly #child: ChildProcess
  #output = ''

  private constructor (command: string, cwd: string, env: NodeJS.ProcessEnv) {
    // Starts a process group, as a terminal does: Ctrl-C reaches all of it.
    this.#child = spawn('sh', ['-c', command], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', text => {
        this.#output += String(text)
      })
    }
  }

  /** Starts a server and waits until it reports that it listens. */
  static async start (command: string, cwd: string, env: NodeJS.ProcessEnv): Promise<PageServer> {
    const server = new PageServer(command.replace(/ *&$/, ''), cwd, env)
    try {
      await server.#listens(command)
      return server
    } catch (error) {
      server.kill()
      throw error
    }
  }

  /** Sends Ctrl-C; rejects if the server does not exit well. */
  async stop (): Promise<void> {
    const { pid, exitCode } = this.#child
    if (pid === undefined || exitCode !== null) {
      throw new Error(`a server has ended by itself with ${exitCode}:\n${this.#output}`)
    }
    const ended = once(this.#child, 'close', { signal: AbortSignal.timeout(stopMs) })
    process.kill(-pid, 'SIGINT')
    await ended
    if (!/"msg":"stopped"|a made-up node on/.test(this.#output)) {
      throw new Error(`a server has not stopped as it should:\n${this.#output}`)
    }
  }

  /** Kills the server if it still runs. */
  kill (): void {
    const { pid, exitCode, signalCode } = this.#child
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL')
  }

  async #listens (command: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`after ${startMs} ms it does not listen: ${command}\n${this.#output}`))
      }, startMs)
      const look = (): void => {
        if (listening.test(this.#output)) end(resolve)
      }
      const end = (how: () => void): void => {
        clearTimeout(timer)
        this.#child.stdout?.off('data', look)
        how()
      }
      this.#child.stdout?.on('data', look)
      this.#child.once('close', code => {
        end(() => {
          reject(new Error(`ended with ${code}: ${command}\n${this.#output}`))
        })
      })
    })
  }
}
