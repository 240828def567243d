import { type Loaded } from '../config/load.js'
import { type Config } from '../config/schema.js'
import { maskUrl } from '../config/secrets.js'

/** What a person sees first: where varve listens, what it reads from, and three lines to try. */
export function bannerOf (
  varve: { readonly url: string, readonly adminUrl: string },
  { config, isSandbox }: Pick<Loaded, 'config' | 'isSandbox'>
): string {
  const redis = redisIn(config.cache.redis)
  return `
  varve   history is immutable, so read it once

  reads   ${varve.url}/v1
  admin   ${varve.adminUrl}/metrics, /healthz, /readyz, /status.json
  page    ${varve.adminUrl}/status
  ${config.upstreams.length > 1 ? 'nodes' : 'node '}   ${
    isSandbox
      ? 'sandbox, the embedded node: made-up data (take --upstream URL instead for a real one)'
      : nodesIn(config)
  }
  memory  ${config.cache.memory.maxMb} MB
  redis   ${redis}

  a miss, a hit, and a hit by another spelling with the position moved on:
${linesToTry(varve.url, isSandbox).map(line => `    ${line}\n`).join('')}
`
}

/**
 * The embedded node has version 2000 for as long as it runs; of a real one nobody knows what it still has, but that it
 * has its newest.
 */
function linesToTry (url: string, isSandbox: boolean): string[] {
  const curls = (version: string, padded: string): string[] => [
    ...[1, 2].map(() => `curl -si "${url}/v1/accounts/0x1/modules?ledger_version=${version}&limit=1" | head -n 20`),
    `curl -si "${url}/v1/accounts/0000001/modules?limit=01&ledger_version=${padded}" | head -n 20`
  ]
  if (isSandbox) return curls('2000', '%2B2000')
  return [`V=$(curl -sI ${url}/v1/info | grep -i ^x-node-ledger-version | tr -dc 0-9)`, ...curls('$V', '%2B$V')]
}

function nodesIn ({ upstreams }: Config): string {
  return upstreams.map(({ url }) => maskUrl(url)).join('\n          ')
}

function redisIn ({ url, cluster, sentinel }: Config['cache']['redis']): string {
  if (url !== null) return maskUrl(url)
  if (cluster.length > 0) return `a cluster (${cluster.join(', ')})`
  return sentinel.name === null ? 'none: what is read is not shared' : `${sentinel.name}, as its sentinels say`
}
