import { type Config } from '../config/schema.js'
import { maskUrl } from '../config/secrets.js'

/** What a person sees first: where varve listens, what it reads from, and three lines to try. */
export function bannerOf (varve: { readonly url: string, readonly adminUrl: string }, config: Config): string {
  const redis = redisIn(config.cache.redis)
  const modules = `${varve.url}/v1/accounts`
  return `
  varve   history is immutable, so read it once

  reads   ${varve.url}/v1
  admin   ${varve.adminUrl}/metrics, /healthz, /readyz, /status.json
  page    ${varve.adminUrl}/status
  ${config.upstreams.length > 1 ? 'nodes' : 'node '}   ${nodesIn(config)}
  memory  ${config.cache.memory.maxMb} MB
  redis   ${redis}

  a miss, a hit, and a hit by another spelling with the position moved on:
    curl -si '${modules}/0x1/modules?ledger_version=2000&limit=1' | head -n 20
    curl -si '${modules}/0x1/modules?ledger_version=2000&limit=1' | head -n 20
    curl -si '${modules}/0000001/modules?limit=01&ledger_version=%2B2000' | head -n 20

`
}

function nodesIn ({ upstreams }: Config): string {
  if (upstreams.length === 0) return 'the embedded sandbox node (made-up data; set --upstream URL for a real one)'
  return upstreams.map(({ url }) => maskUrl(url)).join('\n          ')
}

function redisIn ({ url, cluster, sentinel }: Config['cache']['redis']): string {
  if (url !== null) return maskUrl(url)
  if (cluster.length > 0) return `a cluster (${cluster.join(', ')})`
  return sentinel.name === null ? 'none: what is read is not shared' : `${sentinel.name}, as its sentinels say`
}
