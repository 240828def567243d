import { createSecureContext, getCiphers } from 'node:tls'

const tls13 = ['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256']

const forwardSecretAead = [
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305'
]

/**
 * The cipher list for Node; null means forward secrecy and AEAD only, since CBC and RSA key exchange are broken too
 * often.
 */
export function cipherListOf (ciphers: string | null): string {
  const items = ciphers?.split(':') ?? forwardSecretAead
  // Node would switch TLS 1.3 off where no suite of it is named; nginx and others leave TLS 1.3 alone.
  return [...(items.some(isOfTls13) ? [] : tls13), ...items].join(':')
}

/** Says why a text is no cipher list; undefined where it is one. OpenSSL itself ignores items that it does not know. */
export function mistakeInCiphers (ciphers: string): string | undefined {
  const items = ciphers.split(':')
  const unknown = items.findIndex(item => !isKnown(item))
  if (unknown !== -1) return `item ${unknown + 1} matches no cipher of this Node.js`
  return isUsable(ciphers) ? undefined : 'what its items exclude leaves none'
}

function isKnown (item: string): boolean {
  if (isOfTls13(item)) return getCiphers().includes(item.toLowerCase())
  // An exclusion may name what this build has not got; a command such as @STRENGTH names no cipher.
  if (/^[!+-][A-Za-z0-9_+-]+$|^@[A-Z]+(?:=[0-9])?$/.test(item)) return true
  return /^[A-Za-z0-9_+-]+$/.test(item) && isUsable(item)
}

function isUsable (ciphers: string): boolean {
  try {
    createSecureContext({ ciphers })
    return true
  } catch {
    return false
  }
}

function isOfTls13 (item: string): boolean {
  return item.startsWith('TLS_')
}
