import { fileURLToPath } from 'node:url'
import { Peer } from './peer.js'

/** Starts a proxy without a cache in front of an upstream; `file` is its program beside this file. */
export async function startForwarder ({ programs }, name, file, originUrl) {
  const commandLine = [process.execPath, fileURLToPath(new URL(file, import.meta.url)), originUrl]
  const running = await programs.start(name, commandLine, { part: 'server' })
  return new Peer(name, await running.says(line => /^forwards on (\S+)$/.exec(line)?.[1]), running)
}
