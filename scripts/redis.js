import { getuid } from 'node:process'
import { run, say } from './ground.js'

const managers = [
  { name: 'apt-get', asRoot: true, steps: [['update'], ['install', '-y', '--no-install-recommends', 'redis-server']] },
  { name: 'apk', asRoot: true, steps: [['add', '--no-cache', 'redis']] },
  { name: 'dnf', asRoot: true, steps: [['install', '-y', 'redis']] },
  { name: 'brew', asRoot: false, steps: [['install', 'redis']] }
]

// Nobody is there to answer a package's questions.
const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }

/** Makes sure that a real `redis-server` is on PATH; answers the reason where it cannot be. */
export async function bringRedis () {
  if (await works('redis-server')) return
  const manager = await managerHere()
  if (manager === undefined) return advice('no known package manager was found')
  if (manager.asRoot && getuid?.() !== 0) return advice(`${manager.name} needs root`)
  say(`installing redis-server with ${manager.name} ...`)
  for (const step of manager.steps) {
    const { code, output } = await run([manager.name, ...step], { env })
    if (code !== 0) return advice(`${manager.name} ${step[0]} failed:\n${output.trimEnd()}\n`)
  }
  if (!await works('redis-server')) return advice(`what ${manager.name} installed does not run`)
}

async function managerHere () {
  for (const manager of managers) {
    if (await works(manager.name)) return manager
  }
}

async function works (command) {
  return (await run([command, '--version'])).code === 0
}

function advice (reason) {
  return `the tests need redis-server on PATH, and it could not be installed here (${reason}); ` +
    'install Redis by hand and run this again.'
}
