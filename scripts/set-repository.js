import { readFileSync, writeFileSync } from 'node:fs'
import { at, giveUpOn, run } from './ground.js'

// Replaces the placeholders of package.json, the only place of the repository's address, and what is made from them:
// the image that README.md installs, and the links of alerts.
const [repository = '', tag = ''] = process.argv.slice(2)
if (!/^https:\/\/[\w.-]+\/[\w.-]+\/[\w.-]+$/.test(repository) || !/^[\w./-]+$/.test(tag)) {
  giveUpOn('expected the address of the repository and a tag, such as https://forge.example/owner/varve v1.2.3')
}
const manifest = JSON.parse(readFileSync(at('package.json'), 'utf8'))
manifest.homepage = `${repository}/blob/${tag}/`
manifest.bugs.url = `${repository}/issues`
manifest.repository.url = `git+${repository}.git`
writeFileSync(at('package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
const image = `ghcr.io${new URL(repository).pathname.toLowerCase()}`
writeFileSync(at('README.md'), readFileSync(at('README.md'), 'utf8').replace('ghcr.io/OWNER/REPOSITORY', image))
const { code, output } = await run([process.execPath, at('scripts/prometheus-rule.js')])
giveUpOn(code === 0 ? undefined : output)
