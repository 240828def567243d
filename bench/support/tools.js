import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { run } from '../../scripts/ground.js'

/** External tools, with their Debian package, version flag and the effect of their absence. */
const known = [
  { name: 'wrk', package: 'wrk', version: ['-v'], without: 'hot-key, tls, trace and forward measure nothing' },
  { name: 'nginx', package: 'nginx-light', version: ['-v'], without: 'nginx is skipped' },
  { name: 'varnishd', package: 'varnish', version: ['-V'], without: 'Varnish is skipped' },
  { name: 'haproxy', package: 'haproxy', version: ['-v'], without: 'HAProxy is skipped' },
  { name: 'openssl', package: 'openssl', version: ['version'], without: 'tls measures nothing' },
  { name: 'redis-server', package: 'redis-server', version: ['--version'], without: 'redis-hit measures nothing' },
  { name: 'taskset', package: 'util-linux', version: ['--version'], without: 'nothing is pinned to a core' }
]

/** Finds the tools on this machine: paths, versions, and a sentence for each missing one. */
export async function lookForTools () {
  const paths = {}
  const versions = {}
  const missing = []
  for (const tool of known) {
    const path = pathOf(tool.name)
    if (path === undefined) {
      missing.push(
        `${tool.name} is not on PATH; the Debian package ${tool.package} provides it; without it ${tool.without}`
      )
      continue
    }
    paths[tool.name] = path
    const { output } = await run([path, ...tool.version])
    versions[tool.name] = /\d+(?:\.\d+)+/.exec(output)?.[0] ?? 'unknown'
  }
  return { paths, versions, missing }
}

// Debian installs servers in sbin, which is not on the PATH of ordinary users.
function pathOf (name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(folder => folder !== '')
  const beside = folders.filter(folder => /\/bin\/?$/.test(folder)).map(folder => folder.replace(/bin\/?$/, 'sbin'))
  return [...folders, ...beside].map(folder => join(folder, name)).find(isProgram)
}

function isProgram (path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
