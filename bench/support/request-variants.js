// Request variants: each client writes requests with the same meaning in its own consistent form.

const plain = digits => `0x${digits}`
const padded = digits => `0x${digits.padStart(64, '0')}`
const paddedUpper = digits => `0x${digits.toUpperCase().padStart(64, '0')}`
const bare = digits => digits
const zero = digits => `0x0${digits}`
const upper = digits => `0x${digits.toUpperCase()}`

// Nodes reject raw < and > in a path, so every client encodes them.
const someEncoded = text => encodeURI(text)
const allEncoded = text => encodeURIComponent(text)
const lowerEncoded = text => encodeURIComponent(text).replace(/%[0-9A-F]{2}/g, code => code.toLowerCase())

const compact = members => JSON.stringify(Object.fromEntries(members))
const turned = members => JSON.stringify(Object.fromEntries(members.toReversed()))
const airy = members =>
  `{ ${members.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`).join(', ')} }`
const pretty = members => JSON.stringify(Object.fromEntries(members), undefined, 2)

const asGiven = parameters => parameters
const backwards = parameters => parameters.toReversed()

// Nodes require 0x inside a type tag.
const inTag = address => address === bare ? plain : address

/** Forms that clients use for addresses, type tags, parameter order, bodies, numbers and default values. */
export const clients = [
  { address: plain, encode: allEncoded, order: asGiven, body: compact, number: String, saysDefaults: false },
  { address: padded, encode: allEncoded, order: backwards, body: compact, number: String, saysDefaults: true },
  { address: plain, encode: someEncoded, order: asGiven, body: airy, number: String, saysDefaults: false },
  { address: bare, encode: allEncoded, order: asGiven, body: turned, number: String, saysDefaults: true },
  { address: paddedUpper, encode: lowerEncoded, order: backwards, body: pretty, number: String, saysDefaults: false },
  {
    address: zero,
    encode: someEncoded,
    order: backwards,
    body: turned,
    number: text => `0${text}`,
    saysDefaults: true
  },
  { address: upper, encode: lowerEncoded, order: asGiven, body: airy, number: String, saysDefaults: false },
  { address: padded, encode: someEncoded, order: asGiven, body: pretty, number: String, saysDefaults: false }
].map(client => ({ ...client, addressInTag: inTag(client.address) }))

/** Builds a target from a path and parameters; some clients also send default values. */
export function targetOf ({ order, saysDefaults }, path, parameters, defaults = []) {
  const all = order([...parameters, ...(saysDefaults ? defaults : [])])
  return all.length === 0 ? path : `${path}?${all.map(([name, value]) => `${name}=${value}`).join('&')}`
}
