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
 * Returns the cipher list for Node.js; null means forward secrecy and AEAD only, because attacks on CBC and RSA key
 * exchange recur.
 */
export function cipherListOf (ciphers: string | null): string {
  const items = ciphers?.split(':') ?? forwardSecretAead
  // Node.js disables TLS 1.3 if the list names none of its suites; nginx and others leave TLS 1.3 on.
  return [...(items.some(isOfTls13) ? [] : tls13), ...items].join(':')
}

/** Returns the mistake in a cipher list, or undefined; OpenSSL itself ignores unknown items. */
export function mistakeInCiphers (ciphers: string): string | undefined {
  const items = ciphers.split(':')
  const unknown = items.findIndex(item => !isKnown(item))
  if (unknown !== -1) return `item ${unknown + 1} matches no cipher of this Node.js`
  return isUsable(ciphers) ? undefined : 'its exclusions leave no cipher'
}

function isKnown (item: string): boolean {
  if (isOfTls13(item)) return getCiphers().includes(item.toLowerCase())
  // Exclusions may name ciphers that this build lacks; commands such as @STRENGTH name none.
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
