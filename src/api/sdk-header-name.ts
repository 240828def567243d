/**
 * Returns true if a request header in lower case names the client's library, as `x-aptos-client` does; each chain
 * family has its own prefix (docs/node-behaviour.md, "Compression and connections").
 */
export function isSdkHeaderName (name: string): boolean {
  return /^x-[a-z0-9-]{1,64}-(?:client|origin-method)$/.test(name)
}
