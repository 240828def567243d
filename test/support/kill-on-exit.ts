import { type ChildProcess, spawn } from 'node:child_process'

/** Kills a server and removes its folder if this process ends without teardowns, as a test after its timeout. */
export function killOnExit (child: ChildProcess, folder: string): void {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$0"; rm -rf "$1"'
  const guard = spawn('sh', ['-c', script, String(child.pid), folder], { stdio: ['pipe', 'ignore', 'ignore'] })
  child.once('exit', () => {
    guard.kill('SIGKILL')
  })
}
