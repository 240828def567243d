import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { certificate, certificateKey } from '../certificate.js'

/** Returns a page's configuration with its variables set and its files present. */
export function pageConfig (
  text: string,
  folder: string
): { readonly file: string, readonly env: Record<string, string> } {
  mkdirSync(folder, { recursive: true })
  const secret = join(folder, 'secret')
  writeFileSync(secret, 'k-from-a-file\n')
  writeFileSync(join(folder, 'cert.pem'), certificate)
  writeFileSync(join(folder, 'key.pem'), certificateKey)
  const env = Object.fromEntries(
    [...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)\}/g)].map((
      [, name = '']
    ) => [name, name.endsWith('_URL') ? 'redis://127.0.0.1:1' : `k-${name}`])
  )
  // A block shows the keys that its page is about, so it rarely lists upstreams.
  if (!/^upstreams:/m.test(text)) env['VARVE_SANDBOX'] = '1'
  const file = join(folder, 'page.yaml')
  writeFileSync(
    file,
    text.replace(/\$\{file:[^}]*\}/g, `\${file:${secret}}`).replace(
      /((ca|cert|key)File: *)[^\s,}]+/g,
      (_match, key: string, kind: string) => `${key}${join(folder, kind === 'key' ? 'key.pem' : 'cert.pem')}`
    )
  )
  return { file, env }
}
