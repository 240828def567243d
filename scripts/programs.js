import { getuid } from 'node:process'
import { run, say } from './ground.js'

const managers = [
  {
    name: 'apt-get',
    asRoot: true,
    install: packages => [['update'], ['install', '-y', '--no-install-recommends', ...packages]]
  },
  { name: 'apk', asRoot: true, install: packages => [['add', '--no-cache', ...packages]] },
  { name: 'dnf', asRoot: true, install: packages => [['install', '-y', ...packages]] },
  { name: 'brew', asRoot: false, install: packages => [['install', ...packages]] }
]

/** Programs that checks run beside varve, with their packages per package manager. */
const packages = {
  'redis-server': { 'apt-get': ['redis-server'], apk: ['redis'], dnf: ['redis'], brew: ['redis'] },
  prometheus: { 'apt-get': ['prometheus'], apk: ['prometheus'], dnf: ['prometheus'], brew: ['prometheus'] },
  promtool: { 'apt-get': ['prometheus'], apk: ['prometheus'], dnf: ['prometheus'], brew: ['prometheus'] },
  chromium: {
    'apt-get': ['chromium', 'fonts-dejavu-core'],
    apk: ['chromium', 'font-dejavu'],
    dnf: ['chromium'],
    brew: ['chromium']
  },
  caddy: { 'apt-get': ['caddy'], apk: ['caddy'], dnf: ['caddy'], brew: ['caddy'] },
  nginx: { 'apt-get': ['nginx-light'], apk: ['nginx'], dnf: ['nginx'], brew: ['nginx'] },
  tc: { 'apt-get': ['iproute2'], apk: ['iproute2'], dnf: ['iproute-tc', 'iproute'], brew: [] },
  debootstrap: { 'apt-get': ['debootstrap'], apk: ['debootstrap'], dnf: ['debootstrap'], brew: [] },
  'docker-compose': {
    'apt-get': ['docker-compose'],
    apk: ['docker-compose'],
    dnf: ['docker-compose'],
    brew: ['docker-compose']
  }
}

// Prevents packages from waiting for input.
const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }

/** Programs that `npm test` needs. */
export const forTests = ['redis-server']
/** Programs that the longer checks need; `tc` and `debootstrap` exist only on Linux. */
export const forLongerChecks = Object.keys(packages).filter(program =>
  !['tc', 'debootstrap'].includes(program) || process.platform === 'linux'
)

/** Installs missing programs in one call, since package managers hold a lock; returns the reason for a failure. */
export async function bring (programs) {
  const missing = await missingOf(programs)
  if (missing.length === 0) return
  const manager = await managerHere()
  if (manager === undefined) return advice(missing, 'no known package manager was found')
  if (manager.asRoot && getuid?.() !== 0) return advice(missing, `${manager.name} needs root`)
  say(`installing ${missing.join(', ')} with ${manager.name} ...`)
  for (const step of manager.install([...new Set(missing.flatMap(program => packages[program][manager.name]))])) {
    const { code, output } = await run([manager.name, ...step], { env })
    if (code !== 0) return advice(missing, `${manager.name} ${step[0]} failed:\n${output.trimEnd()}\n`)
  }
  const still = await missingOf(missing)
  if (still.length > 0) return advice(still, `the programs that ${manager.name} installed do not run`)
}

async function missingOf (programs) {
  const found = await Promise.all(programs.map(works))
  return programs.filter((_, at) => !found[at])
}

async function managerHere () {
  for (const manager of managers) {
    if (await works(manager.name)) return manager
  }
}

// Version flags of programs that do not accept --version.
const versionFlags = { caddy: 'version', nginx: '-v', tc: '-V' }

async function works (command) {
  return (await run([command, versionFlags[command] ?? '--version'])).code === 0
}

function advice (programs, reason) {
  return `the tests need ${programs.join(' and ')} on PATH, which could not be installed here (${reason}); ` +
    `install ${programs.length === 1 ? 'it' : 'them'} by hand, then retry`
}
