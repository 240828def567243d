import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { runProgram } from './run-npm.js'

const root = join(import.meta.dirname, '../..')
const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  name: string,
  version: string
}

/** Copies the checkout into a folder of its own, with the same installed packages. */
export function copyCheckout (dir: string): string {
  mkdirSync(dir)
  for (const name of readdirSync(root)) {
    if (!['node_modules', '.git', '.tap', 'dist', 'coverage'].includes(name)) {
      cpSync(join(root, name), join(dir, name), { recursive: true })
    }
  }
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
  return dir
}

/** Packs a copy of the checkout; returns the path of the package. */
export async function pack (t: Test, from: string, to: string): Promise<string> {
  mkdirSync(to)
  const command = 'umask 022 && npm pack --silent --pack-destination "$1"'
  const { code, stderr } = await runProgram('sh', ['-c', command, 'sh', to], { cwd: from })
  t.equal(code, 0, stderr)
  return join(to, `${name}-${version}.tgz`)
}

/** Returns the digest of a file. */
export function digestOf (file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}
