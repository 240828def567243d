import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const root = join(import.meta.dirname, '..')
const read = <T>(...path: string[]): T => JSON.parse(readFileSync(join(root, ...path), 'utf8')) as T

interface Locked {
  name?: string
  version?: string
  resolved?: string
  integrity?: string
  dev?: boolean
  devOptional?: boolean
  hasInstallScript?: boolean
  license?: string
  link?: boolean
}

const { packages } = read<{ packages: Record<string, Locked> }>('package-lock.json')
const locked = Object.entries(packages).filter(([path]) => path !== '')
// Packages that users install, those for some machines only included.
const atRunTime = locked.filter(([, { dev, devOptional }]) => dev !== true && devOptional !== true)

// Licences that require attribution only; a person checks a new one before it is added.
const allowed = ['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', '0BSD']

t.test('the lock file pins every package by its hash, and names no registry address', async t => {
  t.ok(locked.length > 100)
  for (const [path, { resolved, integrity, link }] of locked) {
    t.equal(resolved, undefined, path)
    t.equal(link, undefined, path)
    t.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/, path)
  }
  t.match(readFileSync(join(root, '.npmrc'), 'utf8'), /^omit-lockfile-registry-resolved=true$/m, 'npm keeps it so')
})

t.test('the lock file belongs to this package.json', async t => {
  const { name, version, dependencies, devDependencies, engines } = read<Record<string, unknown>>('package.json')
  t.match(packages[''], { name, version, dependencies, devDependencies, engines })
})

t.test('no package that runs in varve runs a script or compiles when it is installed', async t => {
  t.ok(atRunTime.length > 20)
  for (const [path, { hasInstallScript }] of atRunTime) {
    t.notOk(hasInstallScript, path)
    t.notOk(existsSync(join(root, path, 'binding.gyp')), path)
    const { scripts = {} } = read<{ scripts?: Record<string, string> }>(path, 'package.json')
    for (const name of ['preinstall', 'install', 'postinstall']) t.notOk(name in scripts, `${path}: ${name}`)
  }
  const own = read<{ scripts: Record<string, string> }>('package.json').scripts
  for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) t.notOk(name in own, `varve itself: ${name}`)
})

t.test('every package that runs in varve has an allowed licence, in the lock file and its manifest', async t => {
  for (const [path, { license }] of atRunTime) {
    t.ok(allowed.includes(license ?? ''), `${path}: ${license ?? 'none'}`)
    t.equal(read<{ license?: string }>(path, 'package.json').license, license, path)
  }
})

t.test('installed packages have the versions of the lock file', async t => {
  for (const [path, { version }] of atRunTime) {
    t.equal(read<{ version: string }>(path, 'package.json').version, version, path)
  }
})
